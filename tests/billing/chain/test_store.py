"""The chain survives a restart, whatever the moment of the stop."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from billing.chain.errors import KeyFileRefused
from billing.chain.keyfile import write_key_file
from billing.chain.localnet.client import LocalnetControl
from billing.chain.localnet.runner import RunningLocalnet
from billing.chain.localnet.store import RESERVE, FolderInUse, JournalDamaged
from billing.chain.rpc import RpcClient
from tests.billing.chain.conftest import FINALITY
from tests.billing.chain.world import USDC, World, new_wallet

ROOT = Path(__file__).resolve().parents[3]


def running(folder):
    return RunningLocalnet(folder, finality=FINALITY)


def snapshot(world):
    """All there is to see of the chain, at the current height."""
    cluster = world.network.cluster
    return {
        "genesis": world.rpc.genesis_hash(),
        "landed": {
            signature: (entry.height, entry.time, entry.execution, entry.memo)
            for signature, entry in cluster.landed.items()
        },
        "history": {address: list(signatures) for address, signatures in cluster.by_address.items() if signatures},
        "accounts": sorted((str(key), account) for key, account in cluster.bank.accounts(cluster.height)),
        "hashes": [cluster.blockhash(height) for height in range(cluster.height + 1)],
    }


def lively(world):
    """Payouts, a failure, deposits, a rollback: something of everything."""
    wallet = new_wallet()
    for amount in (1, 2, 3):
        world.send(world.payout(wallet, amount_micro=amount), skip_preflight=True)
        world.control.tick(4)
    customer = world.customer(usdc_micro=USDC)
    world.deposit(customer, USDC)
    world.deposit(customer, 2 * USDC)
    world.control.tick(3)
    world.send(world.payout(wallet, amount_micro=4), skip_preflight=True)
    world.control.tick(3)
    world.control.rollback(2)
    world.control.rollback(1)
    world.control.tick(1)
    world.send(world.payout(wallet, amount_micro=5), skip_preflight=True)
    world.control.tick(2)
    return wallet


def test_a_restart_gives_the_same_chain(data_folder):
    with running(data_folder) as first, World(first) as world:
        world.control.tick(20)
        wallet = lively(world)
        before, height = snapshot(world), world.network.cluster.height
        facts = first.network.facts()
    with running(data_folder) as second, World(second) as world:
        after = snapshot(world)
        assert second.network.facts() == facts
        assert height <= world.network.cluster.height <= height + RESERVE
        after["hashes"] = after["hashes"][: height + 1]
        assert after == before
        assert world.usdc(wallet) == 1 + 2 + 3 + 5
        world.finalize()
        payout = world.payout(wallet, amount_micro=10)
        world.send(payout)
        world.finalize()
        assert world.usdc(wallet, "finalized") == 21


def test_identical_bytes_do_not_land_again_after_a_restart(data_folder):
    wallet = new_wallet()
    with running(data_folder) as first, World(first) as world:
        payout = world.payout(wallet)
        world.send(payout, skip_preflight=True)
        world.control.tick()
    with running(data_folder) as second, World(second) as world:
        world.send(payout, skip_preflight=True)
        world.finalize()
        assert world.usdc(wallet) == USDC


def test_a_height_that_was_shown_is_never_taken_back(data_folder):
    heights = []
    for _ in range(4):
        with running(data_folder) as network, World(network) as world:
            heights.append(world.rpc.block_height(commitment="processed"))
            world.control.tick(7)
            heights.append(world.rpc.block_height(commitment="processed"))
    assert heights == sorted(heights)


def test_networks_of_two_folders_are_not_the_same(data_folder):
    with running(data_folder) as one, running(data_folder.parent / "other") as two:
        assert one.network.facts()["genesis_hash"] != two.network.facts()["genesis_hash"]
        assert set(one.network.roles.values()).isdisjoint(two.network.roles.values())


def journal(folder):
    return folder / "chain.jsonl"


@pytest.fixture
def told(data_folder):
    """A folder with a few blocks in its journal."""
    with running(data_folder) as network, World(network) as world:
        for _ in range(3):
            world.send(world.payout(new_wallet()), skip_preflight=True)
            world.control.tick()
    return data_folder


def heights_landed(folder):
    with running(folder) as network:
        return sorted(entry.height for entry in network.network.cluster.landed.values())


@pytest.mark.parametrize("cut", [1, 2, 30, 200])
def test_a_torn_last_line_is_dropped_and_the_journal_goes_on(told, cut):
    path = journal(told)
    assert path.read_bytes().splitlines()[-1].startswith(b'{"kind":"block","height":3')
    os.truncate(path, path.stat().st_size - cut)
    assert heights_landed(told) == [1, 2]
    assert path.read_bytes().endswith(b"\n")
    with running(told) as network, World(network) as world:
        world.send(world.payout(new_wallet()), skip_preflight=True)
        world.control.tick()
    assert len(heights_landed(told)) == 3


def test_every_way_to_cut_the_last_line_gives_a_chain(told):
    """Wherever the writer died, the journal is read up to the line before."""
    path = journal(told)
    content = path.read_bytes()
    last = len(content.splitlines(keepends=True)[-1])
    for cut in range(1, last, 97):
        path.write_bytes(content[:-cut])
        assert heights_landed(told) == [1, 2]


def test_damage_before_the_last_line_is_not_glossed_over(told):
    path = journal(told)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) - 1):
        damaged = list(lines)
        damaged[number] = b"%s\n" % damaged[number][: len(damaged[number]) // 2]
        path.write_bytes(b"".join(damaged))
        with pytest.raises(JournalDamaged, match=f"line {number + 1}"):
            running(told)
    path.write_bytes(b"".join(lines))
    assert heights_landed(told) == [1, 2, 3]


def test_a_journal_that_does_not_follow_from_its_genesis_is_refused(told):
    path = journal(told)
    lines = path.read_bytes().splitlines(keepends=True)
    block = next(line for line in lines if b'"block"' in line)
    again = json.loads(block) | {"height": 9}
    no_money = Keypair()
    message = Message.new_with_blockhash([], no_money.pubkey(), Hash.default())
    unpaid = base64.b64encode(bytes(VersionedTransaction(message, [no_money]))).decode()
    for entry in (
        {"kind": "surprise"},
        {"kind": "block", "height": 9},
        {"kind": "block", "height": 9, "transactions": ["!"], "time": 1},
        {"kind": "block", "height": 9, "transactions": [unpaid], "time": 1},
        again,
    ):
        path.write_bytes(b"".join(lines) + json.dumps(entry).encode() + b"\n")
        with pytest.raises(JournalDamaged):
            running(told)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(JournalDamaged, match="genesis"):
        running(told)


def test_keys_of_another_network_are_refused(told):
    key = told / "keys" / "hot_wallet.json"
    key.unlink()
    write_key_file(key, Keypair())
    with pytest.raises(JournalDamaged, match="other keys"):
        running(told)


def test_a_key_file_open_to_others_is_refused(told):
    (told / "keys" / "vault_owner.json").chmod(0o644)
    with pytest.raises(KeyFileRefused):
        running(told)


def test_key_files_and_folder_are_private(told):
    assert told.stat().st_mode & 0o777 == 0o700
    for path in (told / "keys").iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert {path.stem for path in (told / "keys").iterdir()} == {
        "faucet",
        "hot_wallet",
        "mint_authority",
        "vault_owner",
    }


def test_a_folder_serves_one_network_at_a_time(data_folder):
    with running(data_folder), pytest.raises(FolderInUse):
        running(data_folder)
    running(data_folder).stop()


def test_empty_blocks_take_no_room_and_no_time(data_folder):
    with running(data_folder) as network, World(network) as world:
        world.control.tick(100_000)
    size = journal(data_folder).stat().st_size
    started = time.perf_counter()
    with running(data_folder) as network:
        assert network.network.cluster.height >= 100_000
    assert time.perf_counter() - started < 1.5
    assert journal(data_folder).stat().st_size < 4_000 < size, "compacted at the start"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_program_starts_stops_and_goes_on(data_folder, number):
    """The process itself, twice on one folder, with its own clock; between them it is asked to stop or just killed."""
    wallet, facts = new_wallet(), []
    for _ in range(2):
        command = [sys.executable, "-m", "billing.chain.localnet", "--data", str(data_folder), "--block-ms", "20"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            ready = json.loads(process.stdout.readline())
            facts.append({name: value for name, value in ready.items() if name not in ("rpc", "second_rpc")})
            with RpcClient(ready["rpc"]) as rpc, LocalnetControl(ready["rpc"]) as control:
                signature = control.mint(wallet, USDC)
                while rpc.transaction(signature, commitment="finalized") is None:
                    assert process.poll() is None
                height = rpc.block_height(commitment="processed")
            process.send_signal(number)
            code = process.wait(60)
        finally:
            process.kill()
            process.communicate()
        assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert facts[0] == facts[1]
    with running(data_folder) as network, World(network) as world:
        assert world.usdc(wallet) == 2 * USDC
        assert world.rpc.block_height(commitment="processed") >= height


def test_a_port_that_is_taken_is_said_so(data_folder):
    with running(data_folder) as network:
        port = network.rpc.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "billing.chain.localnet",
            "--data",
            str(data_folder.parent / "b"),
            "--port",
            port,
        ]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "in use" in result.stderr
