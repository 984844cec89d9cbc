#!/bin/sh
# GPUnex agent installer.
#
#   curl -fsSL @ORIGIN@/agent | bash                     install, or update what is installed
#   curl -fsSL @ORIGIN@/agent | bash -s -- --dry-run     look, say what would be done, change nothing
#
# It looks whether this machine is fit, asks which GPUs to offer and for the enrolment token, and starts two containers:
# gpunex-guard, which alone holds Docker's socket and lets a short list of requests through, and gpunex-agent, which asks
# the platform what to run and cannot see this machine's files. Rules of nftables keep jobs off your own network. Nothing
# else is installed; --help says what lies where.
#
# Everything below is a function until the last line: of a download that broke off nothing runs.

# Filled in by the platform that serves this file at /agent (@ORIGIN@ and the images); nothing else of it changes.
platform() {
    URL=${GPUNEX_URL:-@ORIGIN@}
    AGENT_IMAGE=${GPUNEX_AGENT_IMAGE:-@AGENT_IMAGE@}
    GUARD_IMAGE=${GPUNEX_GUARD_IMAGE:-@GUARD_IMAGE@}
}

usage() {
    cat <<USAGE
usage: gpunex-agent.sh [options]     or: curl -fsSL $URL/agent | bash -s -- [options]

  --gpus all|UUID,UUID   which GPUs to offer (default: asks; all where there is no terminal)
  --name NAME            how the machine is called (default: its host name)
  --network MODE         what jobs may reach: open (the internet, default), web (only web pages) or none;
                         never your own network, other jobs, or mail servers
  --dry-run              check the machine, say what would be done, change nothing
  --update               only update what is installed: ask nothing, keep every choice
  --uninstall            end the jobs, remove containers, volumes, rules and files; asks first
  --yes                  do not ask before uninstalling
  --help                 this text

The enrolment token is asked for on the terminal or taken from GPUNEX_TOKEN; never from the command line, which every
process here can read. Running this again updates; jobs go on, choices stay, no token is needed.

  $FOLDER/agent.conf     your choices
  $FOLDER/egress.nft     the rules for jobs' networks (nft list table inet gpunex); loaded by $UNIT
  $STATE_VOLUME        Docker volume: the machine's identity, what it still has to report
USAGE
}

settings() {
    FOLDER=${GPUNEX_FOLDER:-/etc/gpunex}
    CONF=$FOLDER/agent.conf
    STATE_VOLUME=gpunex-agent-state
    STATE_FOLDER=/var/lib/gpunex-agent
    UNIT=gpunex-egress.service
    UNITS=${GPUNEX_SYSTEMD:-/etc/systemd/system}
    NETWORK=''
    ONLINE_SECONDS=${GPUNEX_ONLINE_SECONDS:-180}
    ACTION=install
    GPUS='' NAME='' DRY_RUN='' YES='' FAILED='' CARDS='' STARTED=''
    # Out of the environment at once, so that no program started from here gets it along.
    unset TOKEN
    TOKEN=${GPUNEX_TOKEN:-}
    unset GPUNEX_TOKEN
    SUDO=''
    [ "$(id -u)" = 0 ] || SUDO=sudo
    ENGINE_SOCKET=/var/run/docker.sock
    case ${DOCKER_HOST:-} in
        '') ;;
        unix://*) ENGINE_SOCKET=${DOCKER_HOST#unix://} ;;
        *) stop "DOCKER_HOST: found $DOCKER_HOST, allowed: the engine of this machine (unix://…)" ;;
    esac
}

say() { printf '%s\n' "$*"; }

stop() {
    printf 'gpunex: %s\n' "$*" >&2
    exit 1
}

# run COMMAND…: does it as root, or in a dry run says it. What docker prints then (names, digests) is nobody's news.
run() {
    if [ -n "$DRY_RUN" ]; then
        printf 'would run:'
        for word in "$@"; do
            case $word in
                *[!A-Za-z0-9_./:=@,+-]* | '') printf " '%s'" "$word" ;;
                *) printf ' %s' "$word" ;;
            esac
        done
        printf '\n'
    elif [ "$1" = docker ]; then
        shift
        engine "$@" >/dev/null
    else
        $SUDO "$@"
    fi
}

# engine …: the docker command; looks only, so it also runs in a dry run.
engine() { $SUDO docker ${DOCKER_HOST:+--host "$DOCKER_HOST"} "$@" </dev/null; }

arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --gpus | --name | --network)
                [ $# -ge 2 ] || stop "$1: found nothing behind it, needed: a value"
                case $1 in
                    --gpus) GPUS=$2 ;;
                    --name) NAME=$2 ;;
                    --network) NETWORK=$2 ;;
                esac
                shift
                ;;
            --dry-run) DRY_RUN=yes ;;
            --update) ACTION=update ;;
            --uninstall) ACTION=uninstall ;;
            --yes) YES=yes ;;
            --help | -h) ACTION=usage ;;
            --token*) stop "a token on the command line can be read by every process here; set GPUNEX_TOKEN or wait for the question" ;;
            *) stop "unknown option: $1 (allowed: --gpus, --name, --network, --dry-run, --update, --uninstall, --yes, --help)" ;;
        esac
        shift
    done
    check_words
}

# What travels into commands consists of harmless characters.
check_words() {
    case $GPUS in
        '' | all) ;;
        *[!A-Za-z0-9,-]* | ,* | *,,* | *,) stop "--gpus: found $GPUS, allowed: all, or UUIDs separated by commas" ;;
        GPU-*) ;;
        *) stop "--gpus: found $GPUS, allowed: all, or UUIDs as nvidia-smi -L prints them (GPU-…)" ;;
    esac
    case $NAME in
        *[!A-Za-z0-9._-]* | -*) stop "--name: found $NAME, allowed: letters, digits, dots, dashes and underscores" ;;
    esac
    case $NETWORK in
        '' | none | web | open) ;;
        *) stop "--network: found $NETWORK, allowed: none, web, open" ;;
    esac
    case $URL in
        https://* | http://127.0.0.1 | http://127.0.0.1:* | http://localhost | http://localhost:*) ;;
        @*) stop "this file is a template: get it from your platform's address /agent, or set GPUNEX_URL" ;;
        *) stop "the platform's address is $URL; needed: https (plain http only to this machine)" ;;
    esac
    case $ONLINE_SECONDS in
        '' | *[!0-9]*) stop "GPUNEX_ONLINE_SECONDS: found $ONLINE_SECONDS, allowed: a number of seconds" ;;
    esac
}

# >>> checks (written by: python -m tests.architecture.installer)
rule() {
    case $1 in
        operating_system)
            KIND=one_of LIMIT=linux NEEDED=Linux
            WHY='Containers share the kernel of the machine.'
            REMEDY='Install the agent on a machine that runs Linux.'
            ;;
        architecture)
            KIND=one_of LIMIT='x86_64 amd64' NEEDED=x86_64
            WHY='The images that customers run are built for x86-64.'
            REMEDY='Use a machine with a 64-bit Intel or AMD processor.'
            ;;
        not_wsl)
            KIND=one_of LIMIT=no NEEDED='no WSL'
            WHY='Under the Windows Subsystem for Linux a GPU cannot be reserved for one container.'
            REMEDY='Install Linux on the machine itself.'
            ;;
        privileges)
            KIND=one_of LIMIT=yes NEEDED='root, or a user with sudo'
            WHY='The installer speaks to the engine and writes into /etc/gpunex.'
            REMEDY='Run the installer as root, or as a user who may use sudo.'
            ;;
        engine)
            KIND=one_of LIMIT=docker NEEDED=docker
            WHY='Podman drops GPU requests without an error: a job would run on the processor and still exit with 0. Rootless Docker and Docker Desktop cannot keep jobs off your own network.'
            REMEDY='Install Docker Engine from docs.docker.com/engine/install as a system service, and remove podman-docker.'
            ;;
        engine_running)
            KIND=one_of LIMIT=yes NEEDED=yes
            WHY='The agent runs jobs through the engine.'
            REMEDY='Run: systemctl enable --now docker'
            ;;
        engine_version)
            KIND=at_least LIMIT=24.0 NEEDED='24.0 or newer'
            WHY='Older engines miss sandbox features and security fixes that jobs rely on.'
            REMEDY='Update Docker Engine from docs.docker.com/engine/install'
            ;;
        disk_free)
            KIND=at_least LIMIT=30 NEEDED='30 GB or more'
            WHY='Images of jobs are unpacked where the engine keeps its data.'
            REMEDY='Free some space there (docker system df shows what the engine uses), or move the engine'"'"'s data-root.'
            ;;
        packet_filter)
            KIND=one_of LIMIT=yes NEEDED=yes
            WHY='Jobs may reach the internet but not your own network; rules of nftables see to it.'
            REMEDY='Install nftables (apt-get install nftables), or give jobs no network: --network none'
            ;;
        driver_version)
            KIND=at_least LIMIT=550.0 NEEDED='550.0 or newer'
            WHY='Images built with current CUDA versions need it.'
            REMEDY='Update the NVIDIA driver and reboot.'
            ;;
        gpu_count)
            KIND=at_least LIMIT=1 NEEDED='1 or more'
            WHY='There must be a GPU to offer; nvidia-smi lists those that the driver sees.'
            REMEDY='Run nvidia-smi: it must list your cards without an error. Look at dmesg if it does not, and reboot.'
            ;;
        toolkit_version)
            KIND=at_least LIMIT=1.18.2 NEEDED='1.18.2 or newer'
            WHY='Older NVIDIA Container Toolkits let a container escape (CVE-2024-0132, CVE-2025-23359, CVE-2025-23266).'
            REMEDY='Update nvidia-container-toolkit, then run: systemctl restart docker'
            ;;
        gpu_in_container)
            KIND=one_of LIMIT=yes NEEDED=yes
            WHY='A container must be able to use the GPU that it was given.'
            REMEDY='Run: nvidia-ctk runtime configure --runtime=docker && systemctl restart docker'
            ;;
    esac
}
# <<< checks

# at_least FOUND MINIMUM: compares leading dotted numbers; a distribution's suffix (24.0.7-ce) refuses nobody.
at_least() {
    [ -n "$1" ] || return 1
    printf '%s %s\n' "$1" "$2" | awk '{
        sub(/^v/, "", $1)
        if ($1 !~ /^[0-9]/) exit 1
        found = split($1, f, "."); count = split($NF, m, ".")
        for (i = 1; i <= (found > count ? found : count); i++) {
            if (f[i] + 0 > m[i] + 0) exit 0
            if (f[i] + 0 < m[i] + 0) exit 1
            if (f[i] !~ /^[0-9]+$/) for (j = i + 1; j <= found; j++) f[j] = 0
        }
        exit 0
    }'
}

satisfied() {
    case $KIND in
        at_least) at_least "$1" "$LIMIT" ;;
        one_of)
            word=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]')
            case " $LIMIT " in *" $word "*) ;; *) return 1 ;; esac
            ;;
    esac
}

# check ID FOUND: judges it by the rule of that id. A failure is told in full and ends nothing: all of them are wanted.
check() {
    rule "$1"
    # Debian 12 ships Docker Engine 20.10: enough to try the installer itself.
    [ "$1" != engine_version ] || LIMIT=${GPUNEX_MINIMUM_ENGINE:-$LIMIT}
    if satisfied "$2"; then
        say "ok      $1: $2"
    else
        FAILED=yes
        printf 'FAILED  %s\n  found:  %s\n  needed: %s\n  why:    %s\n  remedy: %s\n' \
            "$1" "${2:-nothing}" "$NEEDED" "$WHY" "$REMEDY" >&2
    fi
}

check_system() {
    check operating_system "$(uname -s)"
    check architecture "$(uname -m)"
    case $(uname -r) in
        *[Mm]icrosoft*) check not_wsl "yes ($(uname -r))" ;;
        *) check not_wsl no ;;
    esac
    if [ -z "$SUDO" ] || command -v sudo >/dev/null 2>&1; then check privileges yes; else
        check privileges "no (user $(id -u), no sudo)"
        SUDO=''
    fi
}

check_engine() {
    if ! command -v docker >/dev/null 2>&1; then
        check engine 'no docker command'
        return
    fi
    if docker --version 2>/dev/null | grep -qi podman; then
        check engine podman
        return
    fi
    if ! version=$(engine version --format '{{.Server.Version}}' 2>/dev/null) || [ -z "$version" ]; then
        check engine_running 'no (docker version gets no answer)'
        return
    fi
    kind=docker
    case $(engine version --format '{{json .Server}}' 2>/dev/null) in *[Pp]odman*) kind=podman ;; esac
    case $(engine info --format '{{.OperatingSystem}} {{.SecurityOptions}}' 2>/dev/null) in
        'Docker Desktop'*) kind=docker-desktop ;;
        *name=rootless*) kind=docker-rootless ;;
    esac
    check engine "$kind"
    check engine_running yes
    check engine_version "$version"
    data=$(engine info --format '{{.DockerRootDir}}' 2>/dev/null) || data=''
    check disk_free "$(df -Pk "${data:-/var/lib/docker}" 2>/dev/null | awk 'NR == 2 { printf "%d GB", $4 * 1024 / 1e9 }')"
}

# Asked of the kernel itself: whether it would take the rules.
check_packet_filter() {
    NETWORK=${NETWORK:-$(conf NETWORK)}
    NETWORK=${NETWORK:-open}
    JOB_NETWORK=bridge
    if [ "$NETWORK" = none ]; then
        JOB_NETWORK=none
    elif ! NFT=$(PATH=$PATH:/usr/sbin:/sbin command -v nft); then
        check packet_filter 'no nft command'
    elif refused=$(egress_rules | $SUDO "$NFT" --check --file - 2>&1); then
        check packet_filter yes
    else
        check packet_filter "no ($(printf '%s\n' "$refused" | head -n 1))"
    fi
}

check_gpus() {
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | grep -m 1 '^[0-9]') || driver=''
    CARDS=$(nvidia-smi --query-gpu=uuid,name --format=csv,noheader 2>/dev/null | grep '^GPU-') || CARDS=''
    check driver_version "${driver:-nvidia-smi does not answer}"
    check gpu_count "$(printf '%s' "$CARDS" | grep -c '^GPU-' || true)"
    toolkit=$(nvidia-ctk --version 2>/dev/null | awk '/version/ { print $NF; exit }') || toolkit=''
    check toolkit_version "${toolkit:-no nvidia-ctk command}"
}

check_images() {
    for image in "$AGENT_IMAGE" "$GUARD_IMAGE"; do
        case $image in
            *[!A-Za-z0-9._/:@-]*) stop "not the name of an image: $image" ;;
            *@sha256:*) ;;
            *) stop "this platform names no image by digest for the agent and its guard (found: ${image:-nothing}); ask its operator" ;;
        esac
    done
}

# The probe runs in the agent's own image: NVIDIA's toolkit puts nvidia-smi into any container that is given a GPU.
check_gpu_in_container() {
    if [ -n "$DRY_RUN" ]; then
        run docker run --rm --network none --gpus "$(gpu_request)" --entrypoint nvidia-smi "$AGENT_IMAGE" -L
        return
    fi
    if seen=$(engine run --rm --network none --gpus "$(gpu_request)" --entrypoint nvidia-smi "$AGENT_IMAGE" -L 2>&1) &&
        printf '%s\n' "$seen" | grep -q '^GPU '; then
        check gpu_in_container yes
    else
        check gpu_in_container "no ($(printf '%s\n' "$seen" | tail -n 1))"
        stop "this machine is not ready; mend what failed above and run the installer again"
    fi
}

gpu_request() { printf '"device=%s","capabilities=gpu,utility"' "$GPUS"; }

has_terminal() { { : </dev/tty; } 2>/dev/null; }

# ask QUESTION: the answer, from the terminal: standard input may be the script itself.
ask() {
    printf '%s' "$1" >/dev/tty
    IFS= read -r answer </dev/tty || answer=''
    printf '%s' "$answer"
}

conf() { sed -n "s/^$1=//p" "$CONF" 2>/dev/null | head -n 1; }

# Given, else as chosen at an earlier time, else asked for, else all.
choose() {
    NAME=${NAME:-$(conf NAME)}
    NAME=${NAME:-$(uname -n)}
    GPUS=${GPUS:-$(conf GPUS)}
    if [ -z "$GPUS" ] && [ "$(printf '%s\n' "$CARDS" | wc -l)" -gt 1 ] && [ -z "$DRY_RUN" ] && has_terminal; then
        printf '%s\n' "$CARDS" >/dev/tty
        GPUS=$(ask 'Which GPUs do you offer? UUIDs separated by commas, or Enter for all: ' | tr -d ' ')
    fi
    GPUS=${GPUS:-all}
    check_words
    [ "$GPUS" != all ] || return 0
    for uuid in $(printf '%s' "$GPUS" | tr , ' '); do
        printf '%s\n' "$CARDS" | grep -q "^$uuid," || stop "--gpus: found $uuid, allowed: cards of this machine:
$CARDS"
    done
}

# agent COMMAND…: one command of the agent on the machine's state, without a network.
agent() {
    engine run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges \
        --volume "$STATE_VOLUME:$STATE_FOLDER" "$AGENT_IMAGE" "$@"
}

enrolled() {
    engine volume inspect "$STATE_VOLUME" >/dev/null 2>&1 || return 1
    case $(agent status 2>/dev/null) in 'new'*) return 1 ;; esac
}

token() {
    if [ -n "$DRY_RUN" ]; then
        say "would ask for the enrolment token, unless GPUNEX_TOKEN is set or this machine is enrolled already"
        return
    fi
    if enrolled; then
        TOKEN=''
        return
    fi
    if [ -z "$TOKEN" ]; then
        has_terminal || stop "no terminal to ask for the enrolment token of your approval e-mail: set GPUNEX_TOKEN"
        TOKEN=$(ask 'Enrolment token (from the approval e-mail): ')
    fi
    case $TOKEN in
        gpxe_*[!A-Za-z0-9_-]* | '') stop "this is no enrolment token: it has other characters than letters, digits, - and _" ;;
        gpxe_*) ;;
        *) stop "this is no enrolment token: one begins with gpxe_" ;;
    esac
}

# The token goes through a pipe into a file that only the agent can read, in the agent's own volume: it is in no argument
# list, no container's settings and no file of the host. The agent deletes it once the machine is enrolled.
token_put() {
    if [ -n "$DRY_RUN" ]; then
        say "would write the token into the volume $STATE_VOLUME, where the agent deletes it after enrolling"
        return
    fi
    [ -n "$TOKEN" ] || return 0
    printf '%s\n' "$TOKEN" | $SUDO docker ${DOCKER_HOST:+--host "$DOCKER_HOST"} run --rm --interactive --network none \
        --read-only --cap-drop ALL --security-opt no-new-privileges --log-driver none \
        --volume "$STATE_VOLUME:$STATE_FOLDER" --entrypoint /bin/sh "$AGENT_IMAGE" \
        -c "umask 077; cat >$STATE_FOLDER/token" || stop "the token could not be handed to the agent"
    TOKEN=''
}

# put FILE: standard input becomes the file, in one step.
put() {
    if [ -n "$DRY_RUN" ]; then
        say "would write $1:"
        sed 's/^/    /'
        return
    fi
    $SUDO mkdir -p "$FOLDER"
    $SUDO tee "$1.new" >/dev/null
    $SUDO mv "$1.new" "$1"
}

conf_put() {
    put "$CONF" <<CONF
# Written by the GPUnex installer. The next run keeps these choices.
GPUS=$GPUS
NAME=$NAME
NETWORK=$NETWORK
URL=$URL
AGENT_IMAGE=$AGENT_IMAGE
GUARD_IMAGE=$GUARD_IMAGE
CONF
}

# >>> rules (written by: python -m tests.architecture.installer)
egress_rules() {
    sed "s/^        jump open\$/        jump $NETWORK/" <<'RULES'
#!/usr/sbin/nft -f
# What jobs may reach. Jobs have a bridge each, named gpx…; every rule here speaks of those interfaces and of nothing else.
#
# The table is ours alone and is replaced as a whole: other tables, Docker's among them, are neither read nor changed. Its
# chains come before Docker's; an `accept` here only means that the next chain decides, a refusal is final.
# Ranges: IANA's special-purpose registries (RFC 6890), RFC 1918, 6598, 3927, 4193, 4291, 6052.

table inet gpunex
delete table inet gpunex

table inet gpunex {
    # Not the public internet: this network, private, carrier-grade NAT, loopback, link-local (169.254.169.254 gives away a
    # cloud account), protocol assignments, documentation, 6to4 relays, benchmarks, multicast, reserved, broadcast.
    set private4 {
        type ipv4_addr
        flags interval
        elements = {
            0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24,
            192.0.2.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, 198.51.100.0/24, 203.0.113.0/24,
            224.0.0.0/4, 240.0.0.0/4
        }
    }

    # The same for IPv6, and whatever carries an IPv4 address inside: v4-compatible and v4-mapped (both in ::/64), NAT64 of
    # every range above, local NAT64, 6to4, Teredo (in 2001::/23).
    set private6 {
        type ipv6_addr
        flags interval
        elements = {
            ::/64, 64:ff9b:1::/48, 100::/63, 2001::/23, 2001:db8::/32, 2002::/16, 3fff::/20, 5f00::/16,
            fc00::/7, fe80::/10, fec0::/10, ff00::/8,
            64:ff9b::/104, 64:ff9b::a00:0/104, 64:ff9b::6440:0/106, 64:ff9b::7f00:0/104, 64:ff9b::a9fe:0/112,
            64:ff9b::ac10:0/108, 64:ff9b::c000:0/120, 64:ff9b::c000:200/120, 64:ff9b::c058:6300/120,
            64:ff9b::c0a8:0/112, 64:ff9b::c612:0/111, 64:ff9b::c633:6400/120, 64:ff9b::cb00:7100/120,
            64:ff9b::e000:0/100, 64:ff9b::f000:0/100
        }
    }

    set connections {
        type ifname
        size 4096
        flags dynamic
    }

    set attempts {
        type ifname
        size 4096
        flags dynamic, timeout
        timeout 1m
    }

    # A job's resolver asks the servers of this machine, which are often at a private address. A public one answers instead.
    chain resolver {
        type nat hook prerouting priority dstnat - 10; policy accept;
        iifname "gpx*" ip daddr @private4 meta l4proto { tcp, udp } th dport 53 dnat ip to 1.1.1.1
        iifname "gpx*" ip6 daddr @private6 meta l4proto { tcp, udp } th dport 53 dnat ip6 to 2606:4700:4700::1111
    }

    chain forward {
        type filter hook forward priority filter - 10; policy accept;
        iifname "gpx*" jump from_job
        oifname "gpx*" jump to_job
    }

    # To this machine itself, at whatever address of its own: nothing but finding one's neighbour, and answers.
    chain input {
        type filter hook input priority filter - 10; policy accept;
        iifname "gpx*" jump to_machine
    }

    chain to_machine {
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } ip6 hoplimit 255 accept
        ct state established,related accept
        jump refuse
    }

    # From other jobs, from the machine's network: nobody calls a job.
    chain to_job {
        ct state established,related accept
        jump refuse
    }

    chain from_job {
        # Nobody else answers at this address (RFC 5737). A reset from here is how an agent knows that this table is loaded.
        ip daddr 192.0.2.1 tcp dport 9 reject with tcp reset
        oifname "gpx*" jump refuse
        ip daddr @private4 jump refuse
        ip6 daddr @private6 jump refuse
        tcp dport { 25, 465, 587 } jump refuse
        ct state established,related accept
        ct state invalid drop
        # Above what a job needs to load data, below what makes a machine useful for scanning and flooding others.
        update @attempts { iifname limit rate over 100/second burst 400 packets } jump refuse
        add @connections { iifname ct count over 1024 } jump refuse
        # What the owner of this machine chose: open or web.
        jump open
    }

    chain open {
        accept
    }

    # Web pages, also over QUIC, and the names to find them.
    chain web {
        tcp dport { 53, 80, 443 } accept
        udp dport { 53, 443 } accept
        jump refuse
    }

    # Said at once, so that a job fails with an error instead of waiting for a timeout.
    chain refuse {
        counter
        reject with icmpx type admin-prohibited
    }
}
RULES
}
# <<< rules

# Before anything can start a job: without the rules the agent takes none that has a network.
rules_put() {
    if [ "$NETWORK" = none ]; then
        rules_remove
        return
    fi
    egress_rules | put "$FOLDER/egress.nft"
    run "$NFT" --file "$FOLDER/egress.nft"
    if ! has_systemd; then
        say "There is no systemd here: load $FOLDER/egress.nft at every start of this machine, or jobs will have to wait for it."
        return
    fi
    put "$UNITS/$UNIT" <<SERVICE
# Written by the GPUnex installer. nftables.service empties the packet filter when it starts: this comes after it, and again.
[Unit]
Description=Network rules for GPUnex jobs
After=nftables.service firewalld.service
Before=docker.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$NFT --file $FOLDER/egress.nft
ExecReload=$NFT --file $FOLDER/egress.nft

[Install]
WantedBy=multi-user.target
SERVICE
    run systemctl daemon-reload
    run systemctl enable --now "$UNIT"
}

rules_remove() {
    if [ -f "$UNITS/$UNIT" ]; then
        run systemctl disable --now "$UNIT"
        run rm -f "$UNITS/$UNIT"
        run systemctl daemon-reload
    fi
    if NFT=$(PATH=$PATH:/usr/sbin:/sbin command -v nft) && $SUDO "$NFT" list table inet gpunex >/dev/null 2>&1; then
        run "$NFT" delete table inet gpunex
    fi
    run rm -f "$FOLDER/egress.nft"
}

has_systemd() { [ -d /run/systemd/system ] || [ -n "${GPUNEX_SYSTEMD:-}" ]; }

# start NAME …: a container with these options of docker run; one that runs with exactly these is left alone.
start() {
    name=$1
    shift
    mark=$(printf '%s\n' "$*" | cksum | cut -d ' ' -f 1)
    running=$(engine inspect --format '{{index .Config.Labels "gpunex.install"}} {{.State.Running}}' "$name" 2>/dev/null) || running=''
    if [ "$running" = "$mark true" ]; then
        say "$name runs already, unchanged"
        return
    fi
    if [ -n "$running" ]; then
        run docker stop "$name"
        run docker rm --force "$name"
    fi
    run docker run --detach --name "$name" --label "gpunex.install=$mark" "$@"
    STARTED=yes
}

# >>> containers (written by: python -m tests.architecture.installer)
start_guard() {
    start gpunex-guard \
        --restart always \
        --user 0:64000 \
        --network none \
        --memory 128m \
        --memory-swap 128m \
        --pids-limit 256 \
        --read-only \
        --cap-drop ALL \
        --security-opt no-new-privileges:true \
        --volume "$ENGINE_SOCKET:/var/run/docker.sock" \
        --volume gpunex-guard-socket:/run/gpunex \
        --log-driver local \
        --log-opt max-size=10m \
        --log-opt max-file=3 \
        "$GUARD_IMAGE" --gpus "$GPUS" --job-network "$JOB_NETWORK" --allow-image "$AGENT_IMAGE"
}

start_agent() {
    start gpunex-agent \
        --restart always \
        --memory 512m \
        --memory-swap 512m \
        --pids-limit 256 \
        --read-only \
        --init \
        --cap-drop ALL \
        --security-opt no-new-privileges:true \
        --tmpfs /tmp:rw,nosuid,nodev,noexec,size=64m \
        --volume "$STATE_VOLUME:/var/lib/gpunex-agent" \
        --volume gpunex-guard-socket:/run/gpunex \
        --gpus "$(gpu_request)" \
        --log-driver local \
        --log-opt max-size=10m \
        --log-opt max-file=3 \
        "$AGENT_IMAGE" run --url "$URL" --name "$NAME" --gpus "$GPUS" --job-network "$JOB_NETWORK" --egress-image "$AGENT_IMAGE" --docker-host unix:///run/gpunex/guard.sock --token-file /var/lib/gpunex-agent/token
}
# <<< containers

# The agent notes when the platform answered last; an answer to the container before this one proves nothing.
wait_online() {
    say "Waiting until the platform hears from this machine ..."
    started=$(date +%s)
    expected='true 0'
    [ -n "$STARTED" ] || expected=$(agent_life)
    while waited=$(($(date +%s) - started)) && [ "$waited" -le "$ONLINE_SECONDS" ]; do
        [ "$(agent_life)" = "$expected" ] || agent_failed
        [ -n "$STARTED" ] || waited=45
        case $(agent status --within "$waited" 2>/dev/null) in
            online*)
                say "Online. Confirm the machine in your dashboard: $URL/provider/"
                return
                ;;
        esac
        sleep 1
    done
    stop "the agent runs, but the platform has not answered within $ONLINE_SECONDS s; it goes on trying. See: docker logs gpunex-agent"
}

agent_life() { engine inspect --format '{{.State.Running}} {{.RestartCount}}' gpunex-agent 2>/dev/null || true; }

# A machine that is enrolled may have jobs, so its agent goes on trying; a new one is taken down, and its token with it.
agent_failed() {
    engine logs --tail 5 gpunex-agent >&2 2>&1 || true
    if ! enrolled; then
        engine rm --force gpunex-agent gpunex-guard >/dev/null 2>&1 || true
        engine run --rm --network none --volume "$STATE_VOLUME:$STATE_FOLDER" --entrypoint /bin/rm "$AGENT_IMAGE" \
            -f "$STATE_FOLDER/token" || true
    fi
    stop "the agent does not stay up; its last words are above. When that is mended, run the installer again."
}

install() {
    if [ "$ACTION" = update ] && ! [ -f "$CONF" ]; then stop "--update: nothing is installed here (no $CONF)"; fi
    check_system
    check_engine
    check_packet_filter
    check_gpus
    [ -z "$FAILED" ] || stop "this machine is not ready; mend what failed above and run the installer again"
    check_images
    choose
    run docker pull --quiet "$GUARD_IMAGE"
    run docker pull --quiet "$AGENT_IMAGE"
    check_gpu_in_container
    token
    before="$(conf AGENT_IMAGE) $(conf GUARD_IMAGE)"
    conf_put
    rules_put
    token_put
    start_guard
    start_agent
    [ -z "$DRY_RUN" ] || return 0
    wait_online
    for id in $before; do
        case $id in "$AGENT_IMAGE" | "$GUARD_IMAGE") ;; *) engine image rm "$id" >/dev/null 2>&1 || true ;; esac
    done
}

uninstall() {
    AGENT_IMAGE=$(conf AGENT_IMAGE)
    GUARD_IMAGE=$(conf GUARD_IMAGE)
    if [ -z "$YES$DRY_RUN" ]; then
        has_terminal || stop "no terminal to ask whether you are sure: add --yes"
        case $(ask "End $(jobs_left | wc -l) running jobs, remove the agent and forget this machine's identity? [y/N] ") in
            [Yy] | [Yy]es) ;;
            *) stop "nothing was changed" ;;
        esac
    fi
    if [ -n "$AGENT_IMAGE" ] && engine inspect gpunex-agent >/dev/null 2>&1; then
        run docker stop gpunex-agent
        # In order: TERM, half a minute, KILL. What is left after that, or of a lost state, goes below.
        run docker run --rm --network none --read-only --cap-drop ALL --volume "$STATE_VOLUME:$STATE_FOLDER" \
            --volume gpunex-guard-socket:/run/gpunex "$AGENT_IMAGE" stop-jobs --docker-host unix:///run/gpunex/guard.sock || true
    fi
    for id in gpunex-agent gpunex-guard $(engine ps --all --quiet --filter label=gpunex.machine_id); do
        ! engine inspect "$id" >/dev/null 2>&1 || run docker rm --force --volumes "$id"
    done
    for id in $(engine network ls --quiet --filter label=gpunex.machine_id); do run docker network rm "$id"; done
    for id in "$STATE_VOLUME" gpunex-guard-socket $(engine volume ls --quiet --filter label=gpunex.machine_id); do
        ! engine volume inspect "$id" >/dev/null 2>&1 || run docker volume rm "$id"
    done
    for id in "$AGENT_IMAGE" "$GUARD_IMAGE" gpunex.invalid/workspace:1; do
        [ -z "$id" ] || ! engine image inspect "$id" >/dev/null 2>&1 || run docker image rm "$id" || true
    done
    rules_remove
    run rm -rf "$FOLDER"
    say "Removed. Retire the machine in your dashboard too: $URL/provider/"
}

jobs_left() { engine ps --quiet --filter label=gpunex.machine_id; }

main() {
    set -eu
    platform
    settings
    arguments "$@"
    case $ACTION in
        usage) usage ;;
        uninstall) uninstall ;;
        *) install ;;
    esac
}

{ main "$@"; }
