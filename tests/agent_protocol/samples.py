"""One valid body of every message, as it looks on the wire."""

from typing import Any

from agent_protocol import messages as wire

UUID_A = "01890a5d-ac96-774b-bcce-b302099a8057"
UUID_B = "01890a5d-ac96-774b-bcce-b302099a8058"
GPU_UUID = "GPU-11111111-2222-3333-4444-555555555555"
CREDENTIAL = "gpxa_" + "A" * 43
NOW = "2026-03-01T12:00:00+00:00"

HOST: dict[str, Any] = {
    "architecture": "x86_64",
    "hostname": "rack-1",
    "os": "Debian 12",
    "kernel": "6.1",
    "cpu_model": "EPYC",
    "cpu_count": 64,
    "ram_bytes": 2**38,
    "disk_total_bytes": 2**40,
    "disk_free_bytes": 2**39,
    "engine": "docker",
    "engine_version": "27.1",
    "toolkit_version": None,
    "driver_version": "550.54",
    "cuda_version": "12.4",
}
GPU: dict[str, Any] = {
    "uuid": GPU_UUID,
    "name": "NVIDIA L4",
    "memory_bytes": 24 * 2**30,
    "pci_bus_id": "00000000:01:00.0",
    "pcie_generation": 4,
    "pcie_width": 16,
    "power_limit_w": 72.0,
    "ecc_enabled": None,
    "mig_enabled": False,
    "vbios": None,
    "health": "ok",
    "reasons": {"ecc_enabled": "not_supported", "vbios": "no_permission"},
}
INVENTORY: dict[str, Any] = {"host": HOST, "gpus": [GPU], "driver_version": "550.54", "cuda_version": "12.4"}
LIMITS: dict[str, Any] = {
    "memory_bytes": 2**30,
    "cpus": 2.0,
    "disk_bytes": 2**30,
    "shm_bytes": 2**26,
    "pids": 256,
}
ATTEMPT_PLAN: dict[str, Any] = {
    "attempt_id": UUID_A,
    "job_id": UUID_B,
    "number": 1,
    "token": "t1",
    "desired": "run",
    "stop_reason": None,
    "image": "python:3.11",
    "command": ["python", "-c", "print('a\nb')"],
    "environment": {"SEED": "1"},
    "gpu_uuids": [GPU_UUID],
    "limits": LIMITS,
    "time_limit_s": 3600,
    "disconnect_grace_s": 1800,
    "log_limit_bytes": 16 * 2**20,
    "started": None,
    "boot_id": "b1",
    "secrets": False,
    "private_image": False,
}
REGISTRY_LOGIN: dict[str, Any] = {"registry": "ghcr.io", "username": "robot$ravi+ci", "password": "hunter2"}
CHALLENGE: dict[str, Any] = {"nonce": "n1", "n": 8192, "rounds": 5}
BENCHMARK_PLAN: dict[str, Any] = {
    "run_id": UUID_A,
    "gpu_uuid": GPU_UUID,
    "suite_version": 1,
    "challenge": CHALLENGE,
    "time_limit_s": 600,
    "image": None,
}
METRICS: dict[str, Any] = {
    "fp32_tflops": 30.5,
    "fp16_tflops": None,
    "tensor_tflops": 120.0,
    "memory_read_gbps": 300.0,
    "memory_write_gbps": 300.0,
    "memory_copy_gbps": 280.0,
    "storage_read_mbps": 900.0,
    "storage_write_mbps": 700.0,
    "network_down_mbps": 900.0,
    "network_up_mbps": 400.0,
    "latency_ms": 20.0,
}
CONDITIONS: dict[str, Any] = {
    "clocks_mhz": 1980,
    "temperature_c": 61.0,
    "throttle_reasons": ["sw_power_cap"],
    "foreign_processes": 0,
    "simulated": True,
    "device": "simulated",
    "details": {"fp32_mad_percent": 0.4},
    "unmeasured": {"fp16_tflops": "out_of_memory"},
}
ATTEMPT_ENDED: dict[str, Any] = {
    "attempt_id": UUID_A,
    "token": "t1",
    "exit_code": 0,
    "reason": "completed",
    "elapsed_s": 12,
    "oom_killed": False,
    "message_code": None,
}
EVENT: dict[str, Any] = {"id": UUID_B, "kind": "attempt_ended", "occurred_at": NOW, "body": ATTEMPT_ENDED}
SYNC_REQUEST: dict[str, Any] = {
    "protocol": 1,
    "sequence": 1,
    "boot_id": "b1",
    "agent_version": "0.1.0",
    "sent_at": NOW,
    "plan_version": None,
    "degraded": ["nvml_timeout"],
    "inventory_digest": "0" * 64,
    "inventory": INVENTORY,
    "telemetry": [
        {
            "uuid": GPU_UUID,
            "utilization_percent": None,
            "memory_used_bytes": 5,
            "temperature_c": 40.0,
            "power_w": 20.0,
            "sm_clock_mhz": 1410,
            "memory_clock_mhz": None,
            "foreign_processes": 0,
            "throttle_reasons": ["gpu_idle"],
            "held_after_job": None,
        }
    ],
    "attempts": [
        {
            "attempt_id": UUID_A,
            "token": "t1",
            "state": "running",
            "elapsed_s": 3,
            "exit_code": None,
            "reason": None,
        }
    ],
    "benchmarks": [{"run_id": UUID_B, "state": "running", "progress_percent": 50}],
}
SYNC_REPLY: dict[str, Any] = {
    "protocol": 1,
    "server_time": NOW,
    "plan_version": 3,
    "plan": [{"kind": "attempt", "key": UUID_A, "body": ATTEMPT_PLAN}],
    "inventory_wanted": False,
    "sync_after_s": 15.0,
    "minimum_agent_version": "0.1.0",
    "rotate_credential": False,
    "bell": {"path": "/agent/v1/bell", "ticket": "abc"},
}
ENROL_REQUEST: dict[str, Any] = {
    "protocol": 1,
    "token": "gpxe_abc",
    "idempotency_key": UUID_A,
    "credential": CREDENTIAL,
    "boot_id": "b1",
    "agent_version": "0.1.0",
    "simulated": False,
    "host": HOST,
}

SAMPLES: list[tuple[type[Any], dict[str, Any]]] = [
    (wire.Host, HOST),
    (wire.Gpu, GPU),
    (wire.Inventory, INVENTORY),
    (wire.EnrolRequest, ENROL_REQUEST),
    (wire.EnrolReply, {"machine_id": UUID_A, "server_time": NOW, "sync_after_s": 15.0}),
    (wire.CredentialRequest, {"credential": CREDENTIAL}),
    (wire.CredentialReply, {"machine_id": UUID_A, "server_time": NOW}),
    (wire.SyncRequest, SYNC_REQUEST),
    (wire.SyncReply, SYNC_REPLY),
    (wire.JobLimits, LIMITS),
    (wire.AttemptPlan, ATTEMPT_PLAN),
    (wire.AttemptPlan, {**ATTEMPT_PLAN, "started": True, "boot_id": None}),
    (wire.SecretsRequest, {"token": "t1", "boot_id": "b1"}),
    (wire.AttemptSecrets, {"environment": {"TOKEN": "hunter2"}, "registry_login": REGISTRY_LOGIN}),
    (wire.AttemptSecrets, {"environment": {}, "registry_login": None}),
    (wire.RegistryLogin, REGISTRY_LOGIN),
    (wire.BenchmarkPlan, BENCHMARK_PLAN),
    (wire.AttemptEnded, ATTEMPT_ENDED),
    (
        wire.BenchmarkReport,
        {
            "run_id": UUID_A,
            "nonce": "n1",
            "suite_version": 1,
            "gpu_uuid": GPU_UUID,
            "metrics": METRICS,
            "conditions": CONDITIONS,
        },
    ),
    (wire.BenchStart, {"nonce": "n1", "attempt": UUID_B}),
    (wire.BenchStarted, {"seed": "0f" * 32}),
    (wire.BenchCommit, {"nonce": "n1", "attempt": UUID_B, "roots": ["0f" * 32], "product_s": 0.5}),
    (wire.BenchCommitted, {"openings": [{"round": 0, "row": 5}]}),
    (
        wire.BenchOpen,
        {
            "nonce": "n1",
            "attempt": UUID_B,
            "openings": [{"round": 0, "row": 5, "leaf": "0f" * 32, "path": ["f0" * 32]}],
        },
    ),
    (wire.BenchOpened, {"rows": 1}),
    (wire.BenchDownload, {"nonce": "n1", "size_bytes": 65536}),
    (wire.BenchUploaded, {"received_bytes": 65536}),
    (wire.BenchmarkFailed, {"run_id": UUID_A, "nonce": "n1", "reason": "no_cuda"}),
    (wire.GpuXid, {"uuid": GPU_UUID, "xid": 79, "at": NOW}),
    (wire.OrphanFound, {"name": "gpunex-job-1-1"}),
    (wire.EventBatch, {"events": [EVENT]}),
    (wire.EventsReply, {"accepted": [UUID_A], "refused": [{"id": UUID_B, "code": "stale_token"}]}),
    (wire.LogChunk, {"token": "t1", "offset": 0, "data": "AP8=", "final": False}),
    (wire.LogReply, {"next_offset": 2}),
    (
        wire.RefusalReply,
        {
            "code": "slow_down",
            "message": "Too many.",
            "fields": None,
            "request_id": "r1",
            "retry_after_s": 3.0,
            "next_offset": None,
        },
    ),
]
