#!/bin/sh
# GPUnex agent installer: curl -fsSL @ORIGIN@/agent | bash
#
#   --gpus all|UUID,UUID   which GPUs to offer (default: asks; all without a terminal)
#   --name NAME            how the machine is called (default: its host name)
#   --dry-run              look and say what would be done; change nothing
#   --uninstall            stop and remove the agent (jobs are ended first); --purge also forgets the machine's identity
#
# The enrolment token is asked for on the terminal, or taken from GPUNEX_TOKEN; never from the command line, which every
# process on the machine can read. Running it again updates the agent; the containers of jobs are left alone.
set -eu

URL="${GPUNEX_URL:-@ORIGIN@}"
AGENT_IMAGE="${GPUNEX_AGENT_IMAGE:-@AGENT_IMAGE@}"
GUARD_IMAGE="${GPUNEX_GUARD_IMAGE:-@GUARD_IMAGE@}"
PROBE_IMAGE="${GPUNEX_PROBE_IMAGE:-nvidia/cuda:12.4.0-base-ubuntu22.04}"
MINIMUM_ENGINE="${GPUNEX_MINIMUM_ENGINE:-24.0}"
MINIMUM_DRIVER=550.0
MINIMUM_TOOLKIT=1.18.2
AGENT=gpunex-agent
GUARD=gpunex-guard
STATE_VOLUME=gpunex-agent-state
SOCKET_VOLUME=gpunex-guard-socket
SOCKET=/run/gpunex/guard.sock
ONLINE_SECONDS=180

GPUS=''
NAME=''
DRY_RUN=''
UNINSTALL=''
PURGE=''
FAILED=''

say() { printf '%s\n' "$*"; }

# fail ID FOUND NEEDED REMEDY: one line each, so that whoever reads it can act; all checks run before the end.
fail() {
    FAILED=yes
    printf 'FAILED  %s\n  found:  %s\n  needed: %s\n  remedy: %s\n' "$1" "$2" "$3" "$4" >&2
}

passed() { printf 'ok      %s: %s\n' "$1" "$2"; }

stop() {
    printf 'gpunex: %s\n' "$*" >&2
    exit 1
}

# at_least FOUND MINIMUM: compares dotted numbers; what follows the numbers (24.0.7-ce) is ignored.
at_least() {
    awk -v found="$1" -v minimum="$2" 'BEGIN {
        sub(/^v/, "", found); sub(/[^0-9.].*$/, "", found)
        if (found == "") exit 1
        split(found, f, "."); count = split(minimum, m, ".")
        for (i = 1; i <= count; i++) {
            if (f[i] + 0 > m[i] + 0) exit 0
            if (f[i] + 0 < m[i] + 0) exit 1
        }
        exit 0
    }'
}

# run COMMAND…: does it, or in a dry run says it.
run() {
    if [ -n "$DRY_RUN" ]; then
        printf 'would run:'
        printf ' %s' "$@"
        printf '\n'
    else
        "$@"
    fi
}

usage() {
    say "usage: agent.sh [--gpus all|UUID,...] [--name NAME] [--dry-run] [--uninstall [--purge]]"
    say "The token comes from the terminal or from GPUNEX_TOKEN."
}

arguments() {
    while [ $# -gt 0 ]; do
        case "$1" in
            --gpus | --name)
                [ $# -ge 2 ] || stop "$1 needs a value"
                if [ "$1" = --gpus ]; then GPUS=$2; else NAME=$2; fi
                shift 2
                ;;
            --dry-run) DRY_RUN=yes; shift ;;
            --uninstall) UNINSTALL=yes; shift ;;
            --purge) PURGE=yes; shift ;;
            --help | -h) usage; exit 0 ;;
            --token*) stop "a token on the command line can be read by every process here; use GPUNEX_TOKEN or wait for the question" ;;
            *) stop "unknown option: $1 (allowed: --gpus, --name, --dry-run, --uninstall, --purge)" ;;
        esac
    done
    check_gpu_list
    case "$URL" in
        https://* | http://127.0.0.1* | http://localhost*) ;;
        *) stop "the platform's address is $URL; needed: https (plain http only to this machine)" ;;
    esac
}

check_system() {
    system=$(uname -s)
    machine=$(uname -m)
    if [ "$system" = Linux ]; then passed operating_system "$system"; else
        fail operating_system "$system" Linux "Install the agent on a machine that runs Linux."
    fi
    case "$machine" in
        x86_64 | amd64) passed architecture "$machine" ;;
        *) fail architecture "$machine" x86_64 "Use a machine with a 64-bit Intel or AMD processor." ;;
    esac
    if grep -qi microsoft /proc/version 2>/dev/null; then
        fail not_wsl WSL "Linux on the machine itself" "Under WSL a GPU cannot be reserved for one container. Install Linux."
    fi
}

check_engine() {
    if ! command -v docker >/dev/null 2>&1; then
        fail engine "no docker command" "Docker Engine $MINIMUM_ENGINE or newer" "Install it: https://docs.docker.com/engine/install/"
        return
    fi
    if docker --version 2>/dev/null | grep -qi podman; then
        fail engine Podman "Docker Engine" "Podman drops GPU requests without an error, and jobs run on the processor. Remove podman-docker and install Docker Engine."
        return
    fi
    if ! engine=$(docker version --format '{{.Server.Version}}' 2>/dev/null) || [ -z "$engine" ]; then
        fail engine_running "no answer from the engine" "a running engine that you may use" "Run: systemctl enable --now docker (and run this script as root)"
        return
    fi
    if at_least "$engine" "$MINIMUM_ENGINE"; then passed engine_version "$engine"; else
        fail engine_version "$engine" "$MINIMUM_ENGINE or newer" "Update Docker Engine: https://docs.docker.com/engine/install/"
    fi
}

check_gpu() {
    if ! driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || [ -z "$driver" ]; then
        fail driver_version "nvidia-smi does not answer" "NVIDIA driver $MINIMUM_DRIVER or newer" "Install or update the NVIDIA driver, then reboot."
    elif at_least "$driver" "$MINIMUM_DRIVER"; then passed driver_version "$driver"; else
        fail driver_version "$driver" "$MINIMUM_DRIVER or newer" "Update the NVIDIA driver and reboot."
    fi
    toolkit=$(nvidia-ctk --version 2>/dev/null | awk '/version/ {print $NF; exit}')
    if [ -z "$toolkit" ]; then
        fail toolkit_version "no nvidia-ctk command" "NVIDIA Container Toolkit $MINIMUM_TOOLKIT or newer" "Install nvidia-container-toolkit, then run: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker"
    elif at_least "$toolkit" "$MINIMUM_TOOLKIT"; then passed toolkit_version "$toolkit"; else
        fail toolkit_version "$toolkit" "$MINIMUM_TOOLKIT or newer" "Older toolkits let a container escape. Update nvidia-container-toolkit, then run: systemctl restart docker"
    fi
    [ -z "$FAILED" ] || return 0
    if [ -n "$DRY_RUN" ]; then
        say "would run: docker run --rm --gpus all $PROBE_IMAGE nvidia-smi -L"
    elif probe=$(docker run --rm --gpus all "$PROBE_IMAGE" nvidia-smi -L 2>&1); then
        passed gpu_in_container "$(printf '%s\n' "$probe" | grep -c '^GPU ' || true) GPUs"
    else
        fail gpu_in_container "$(printf '%s\n' "$probe" | tail -n 1)" "a GPU inside a container" "Run: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker"
    fi
}

check_images() {
    for image in "$AGENT_IMAGE" "$GUARD_IMAGE"; do
        case "$image" in
            *@sha256:*) ;;
            *) [ -n "${GPUNEX_AGENT_IMAGE:-}${GPUNEX_GUARD_IMAGE:-}" ] ||
                { fail images "${image:-none}" "agent and guard images by digest" "This platform has published none yet (AGENT_IMAGE, GUARD_IMAGE); ask its operator."; return; } ;;
        esac
    done
}

ask_gpus() {
    [ -z "$GPUS" ] || return 0
    GPUS=all
    if [ -z "$DRY_RUN" ] && { : </dev/tty; } 2>/dev/null; then
        nvidia-smi -L >/dev/tty
        printf 'Which GPUs do you offer? UUIDs separated by commas, or Enter for all: ' >/dev/tty
        IFS= read -r answer </dev/tty || answer=''
        GPUS=${answer:-all}
    fi
    check_gpu_list
}

check_gpu_list() {
    case "$GPUS" in
        *[!A-Za-z0-9,-]*) stop "--gpus: found $GPUS, allowed: all, or UUIDs separated by commas" ;;
    esac
}

# The token goes to the agent as a file in its own volume, written through a pipe: it is in no argument list, no
# environment of a container and no file of the host.
token() {
    TOKEN=${GPUNEX_TOKEN:-}
    unset GPUNEX_TOKEN
    if [ -z "$TOKEN" ] && [ -z "$DRY_RUN" ] && ! enrolled; then
        { : </dev/tty; } 2>/dev/null || stop "no terminal to ask for the enrolment token: set GPUNEX_TOKEN"
        printf 'Enrolment token (from the approval e-mail): ' >/dev/tty
        IFS= read -r TOKEN </dev/tty || TOKEN=''
        [ -n "$TOKEN" ] || stop "no token given"
    fi
    case "$TOKEN" in
        '' | gpxe_*) ;;
        *) stop "this is no enrolment token; it starts with gpxe_" ;;
    esac
}

enrolled() { docker volume inspect "$STATE_VOLUME" >/dev/null 2>&1; }

start_guard() {
    run docker run --detach --name "$GUARD" --restart always --network none --read-only --cap-drop ALL \
        --security-opt no-new-privileges --volume /var/run/docker.sock:/var/run/docker.sock \
        --volume "$SOCKET_VOLUME:/run/gpunex" "$GUARD_IMAGE"
}

start_agent() {
    set -- docker run --detach --name "$AGENT" --restart always --read-only --cap-drop ALL \
        --security-opt no-new-privileges --gpus "$(gpu_request)" --env NVIDIA_DRIVER_CAPABILITIES=utility \
        --volume "$STATE_VOLUME:/var/lib/gpunex-agent" --volume "$SOCKET_VOLUME:/run/gpunex" --tmpfs /tmp \
        "$AGENT_IMAGE" run --url "$URL" --gpus "$GPUS" --docker-host "unix://$SOCKET" \
        --token-file /var/lib/gpunex-agent/token
    [ -z "$NAME" ] || set -- "$@" --name "$NAME"
    run "$@"
}

gpu_request() {
    if [ "$GPUS" = all ]; then printf all; else printf '"device=%s"' "$GPUS"; fi
}

put_token() {
    [ -n "$TOKEN" ] || return 0
    if [ -n "$DRY_RUN" ]; then
        say "would write the token into the volume $STATE_VOLUME"
        return 0
    fi
    printf '%s\n' "$TOKEN" | docker run --rm --interactive --network none --entrypoint /bin/sh \
        --volume "$STATE_VOLUME:/var/lib/gpunex-agent" "$AGENT_IMAGE" -c 'umask 077; cat >/var/lib/gpunex-agent/token' ||
        stop "the token could not be handed to the agent"
}

wait_online() {
    [ -z "$DRY_RUN" ] || return 0
    say "Waiting until the platform hears from this machine ..."
    waited=0
    while [ "$waited" -lt "$ONLINE_SECONDS" ]; do
        if [ "$(docker inspect --format '{{.State.Running}} {{.RestartCount}}' "$AGENT" 2>/dev/null)" != 'true 0' ]; then
            docker logs --tail 5 "$AGENT" >&2 2>&1 || true
            stop "the agent does not stay up; its last words are above. When that is mended, run the installer again."
        fi
        if docker logs "$AGENT" 2>&1 | grep -q '"event": *"synced"\|event=synced'; then
            say "Online. Confirm the machine in your dashboard: $URL/provider/"
            return 0
        fi
        sleep 3
        waited=$((waited + 3))
    done
    say "The agent is running, but the platform has not answered within $ONLINE_SECONDS s. See: docker logs $AGENT"
}

uninstall() {
    run docker stop "$AGENT" || true
    run docker run --rm --network none --volume "$STATE_VOLUME:/var/lib/gpunex-agent" \
        --volume "$SOCKET_VOLUME:/run/gpunex" "$AGENT_IMAGE" stop-jobs --docker-host "unix://$SOCKET" || true
    run docker rm --force "$AGENT" "$GUARD" || true
    run docker volume rm "$SOCKET_VOLUME" || true
    if [ -n "$PURGE" ]; then run docker volume rm "$STATE_VOLUME" || true; fi
    say "Removed. Retire the machine in your dashboard too: $URL/provider/"
}

main() {
    arguments "$@"
    if [ -n "$UNINSTALL" ]; then
        uninstall
        return
    fi
    check_system
    check_engine
    check_gpu
    check_images
    [ -z "$FAILED" ] || stop "this machine is not ready; mend what failed above and run the installer again"
    ask_gpus
    token
    run docker pull --quiet "$GUARD_IMAGE"
    run docker pull --quiet "$AGENT_IMAGE"
    run docker rm --force "$AGENT" "$GUARD" >/dev/null 2>&1 || true
    start_guard
    put_token
    start_agent
    wait_online
}

# All of it is read before any of it runs: a download that broke off half-way does nothing.
main "$@"
