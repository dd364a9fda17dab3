#!/bin/sh
# The commands of `./x` on a Debian that has nothing yet, as `./x test-fresh`: makes a root with debootstrap (minbase, main archive alone), copies the
# tracked files into it, and runs them there in order. What apt, cargo and pip of this host are told of mirrors, proxies and certificates holds there, too.
#
# root.sh PROJECT SCRATCH [--root DIR] [--set-up-only] [--user] [COMMAND…]: a command is a word such as `demo` or `test`. SCRATCH is where a root is made
# that is removed at the end. All of it happens in namespaces of its own (mounts, processes): what is mounted or started there goes with them.
set -eu

project=$1
scratch=$2
shift 2
inside= # the second half, in its namespaces
root=
kept=no
set_up_only=no
user=root
user_home=/srv/fresh # of the user with sudo, inside the root
commands=
suite=bookworm

say() { printf 'test-fresh: %s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --inside) inside=yes ;;
    --root)
        [ $# -ge 2 ] || fail "--root needs a directory"
        root=$2
        kept=yes
        shift
        ;;
    --set-up-only) set_up_only=yes ;;
    --user) user=fresh ;;
    -*) fail "there is no option $1 (--root DIR, --set-up-only, --user)" ;;
    *) commands="$commands $1" ;;
    esac
    shift
done
commands=${commands:- demo test}

# --- the first half: namespaces, and the end of all ----------------------------------------------------------------

# The first process of the namespace of processes; the kernel ends all others with it.
end_inside() {
    [ -n "${child:-}" ] || return 0
    first=$(cat "/proc/$child/task/$child/children" 2>/dev/null || :)
    # shellcheck disable=SC2086 # one number, or none
    [ -z "$first" ] || kill -KILL $first 2>/dev/null || :
    wait "$child" 2>/dev/null || :
}

clean_up() {
    trap '' INT TERM HUP
    end_inside
    [ -z "$root" ] || rm -f "$root.report" "$root.report.cpu"
    [ "$kept" = yes ] || [ -z "$root" ] || rm -rf --one-file-system -- "$root"
}

outside() {
    [ "$(id -u)" -eq 0 ] || fail "a root is made as root: sudo ./x test-fresh"
    for program in debootstrap unshare chroot tar git; do
        command -v "$program" >/dev/null || fail "$program is missing (Debian packages debootstrap, util-linux, coreutils, tar, git)"
    done
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    if [ "$kept" = no ]; then
        mkdir -p "$scratch"
        root=$(mktemp -d "$scratch/root.XXXXXX")
        chmod 755 "$root"
    else
        mkdir -p "$root"
        root=$(CDPATH='' cd -- "$root" && pwd)
    fi
    # In the background, so that a signal is heard at once. The shell then has it ignore Ctrl-C, which `env` undoes.
    # shellcheck disable=SC2046,SC2086 # the words are options and commands
    env --default-signal=INT,QUIT unshare --mount --pid --fork --kill-child sh "$0" "$project" "$scratch" --inside --root "$root" \
        $([ "$set_up_only" = no ] || echo --set-up-only) $([ "$user" = root ] || echo --user) $commands &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    exit "$status"
}

# --- the second half: the root -------------------------------------------------------------------------------------

# cpu_s_of FILE: user and system time of what has ended, in seconds, as `times` wrote it there; in a pipe it would tell that of its own shell.
cpu_s_of() { awk 'NR == 2 { gsub(/m/, " "); gsub(/s/, ""); printf "%.0f\n", $1 * 60 + $2 + $3 * 60 + $4 }' "$1"; }

# timed NAME COMMAND…: runs it, and adds a line to the report
timed() {
    name=$1
    shift
    say "$name"
    times >"$report.cpu"
    before_s=$(cpu_s_of "$report.cpu")
    begun_s=$(date +%s)
    status=0
    "$@" || status=$?
    ended_s=$(date +%s)
    times >"$report.cpu"
    printf '  %-32s %5d s  %5d s of CPU time  %s\n' "$name" $((ended_s - begun_s)) $(($(cpu_s_of "$report.cpu") - before_s)) \
        "$([ "$status" -eq 0 ] || echo "exit $status")" >>"$report"
    return "$status"
}

# Where this host gets Debian's main archive from; debootstrap has an answer of its own where there is none.
mirror() {
    # shellcheck disable=SC2016 # the words in $() are apt's
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep '/debian/*$' | head -n 1
}

make_root() {
    # shellcheck disable=SC2046 # nothing, or one word
    debootstrap --variant=minbase "$suite" "$root" $(mirror) >&2 || fail "debootstrap failed; the reason stands above"
}

# Proxies and what else of this host is about fetching, not about this host's own packages.
copy_settings() {
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    apt-config dump 2>/dev/null | grep -E '^Acquire::(https?|Check-|Retries|Languages)' | grep -v -i detect >"$root/etc/apt/apt.conf.d/00host" || :
    certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
    mkdir -p "$root/usr/local/share/ca-certificates" "$root/root/.cargo"
    [ ! -s "$certificates" ] || cp "$certificates" "$root/usr/local/share/ca-certificates/host.crt"
    for file in "${CARGO_HOME:-$HOME/.cargo}/config.toml" "${CARGO_HOME:-$HOME/.cargo}/config"; do
        [ ! -f "$file" ] || awk '/^\[/ { taken = /^\[(source|registry|registries|http|net)[].]/ } taken' "$file" >"$root/root/.cargo/config.toml"
    done
    for file in /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
        [ ! -f "$file" ] || cp "$file" "$root/etc/pip.conf"
    done
}

copy_project() {
    mkdir -p "$root/forebay"
    find "$root/forebay" -mindepth 1 -maxdepth 1 ! -name target ! -name forebay-demo -exec rm -rf {} +
    git -c safe.directory='*' -C "$project" ls-files -z | tar -C "$project" --null -T - -cf - | tar -C "$root/forebay" -xf -
}

mount_all() {
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
}

# A user with sudo, as on a desk.
make_user() {
    [ ! -e "$root$user_home" ] || return 0
    in_root "apt-get -q update && apt-get -q install -y --no-install-recommends sudo && useradd --create-home --home-dir $user_home $user" >&2 || return
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
    cp -r "$root/root/.cargo" "$root$user_home/"
    in_root "chown -R $user: /forebay $user_home" >&2
}

# The environment of a log-in, and of this host's what is about fetching.
clean_environment() {
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
        case $name in
        http_proxy | https_proxy | no_proxy | all_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY | ALL_PROXY) ;;
        CARGO_HTTP_* | CARGO_NET_* | CARGO_REGISTRIES_* | CARGO_SOURCE_* | PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_TRUSTED_HOST | TERM) ;;
        *) unset "$name" ;;
        esac
    done
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    HOME=/root
    LANG=C.UTF-8
    DEBIAN_FRONTEND=noninteractive
    # pip brings certificates of its own, without those of this host.
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt
    export PATH HOME LANG DEBIAN_FRONTEND PIP_CERT
}

in_root() { (clean_environment && chroot "$root" /bin/sh -c "$1"); }

in_project() {
    if [ "$user" = root ]; then in_root "cd /forebay && $1"; else in_root "su -p $user -c 'export HOME=$user_home; cd /forebay && $1'"; fi
}

# set_up COMMAND: the tools it needs, each of one Rust; dpkg is asked beside the tools themselves.
set_up() {
    in_project "./x set-up $1" || return
    rust=$(in_root "dpkg-query -W -f '\${db:Status-Status} \${Version}\\n' cargo-web rustc-web libstd-rust-web-dev rust-web-clippy rustfmt-web 2>/dev/null" |
        grep '^[a-z-]* [0-9]' | sort -u)
    [ "$(printf '%s\n' "$rust" | wc -l)" -eq 1 ] || fail "the packages of Rust are not of one version after the set-up of $1: $rust"
    say "packages of Rust: $rust"
}

# Crates for this machine alone; what is there already is not fetched again.
fetch_crates() {
    # shellcheck disable=SC2016 # the words in $() are for the shell in the root
    in_project 'cargo fetch --quiet --locked --target $(rustc -vV | sed -n s/^host:.//p)' >&2
}

sizes() {
    for directory in root/.cargo home forebay; do
        [ ! -d "$root/$directory" ] || du -s -x -BM "$root/$directory" | awk -v name="/$directory" '{ printf "  %-32s %s\n", name, $1 }'
    done
    du -s -x -BM "$root" | awk '{ printf "  %-32s %s\n", "the root, with all of it", $1 }'
}

tell() {
    {
        printf '\ntest-fresh: %s, %s CPUs (%s), Linux %s, load before %s\n' "$(date -u +%Y-%m-%d)" "$(nproc)" \
            "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(uname -r)" "$load"
        cat "$report"
        sizes
    } >&2
    rm -f "$report" "$report.cpu"
}

run_all() {
    [ -e "$root/etc/debian_version" ] || timed "making the root" make_root
    copy_settings
    copy_project
    mount_all
    [ "$user" = root ] || timed "a user with sudo" make_user
    for command in $commands; do
        timed "set-up of $command" set_up "$command"
        [ "$set_up_only" = no ] || continue
        timed "download of crates" fetch_crates
        timed "./x $command" in_project "./x $command"
    done
}

[ -n "$inside" ] || outside
trap 'exit 130' INT
trap 'exit 143' TERM HUP
read -r load _ </proc/loadavg
report=$root.report
: >"$report"
trap tell EXIT
run_all
