#!/bin/sh
# Installs, starts, upgrades and removes the packages of the folder $1, in a copy of this
# system that is thrown away: an overlay in memory, with network and processes of its own.
# Called by tests/packages.rs through `unshare --mount --net --pid --fork`.
set -eu

packages=$1
work=$(mktemp -d)
root=$work/root
configuration=$root/etc/glassline/glassline.yml

fail() {
    echo "packages.sh: $1" >&2
    exit 1
}

# What dpkg, rpm and their scripts see is the copy.
inside() {
    chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

prepare() {
    mount -t tmpfs tmpfs "$work"
    mkdir "$work/changes" "$work/inner" "$root"
    mount -t overlay overlay \
        -o "lowerdir=/,upperdir=$work/changes,workdir=$work/inner" "$root"
    mount -t proc proc "$root/proc"
    # Without /run/systemd/system, no script talks to the systemd of this machine.
    mount -t tmpfs tmpfs "$root/run"
    mkdir -p "$root/mnt/packages"
    mount --bind "$packages" "$root/mnt/packages"
    ip link set lo up
}

# As the unit starts it: its command, its user, its state folder.
start() {
    line=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/glassline.service")
    # shellcheck disable=SC2086 # words of a command
    chroot --userspec=glassline:glassline "$root" \
        env -i STATE_DIRECTORY=/var/lib/glassline $line >"$work/log" 2>&1 &
    server=$!
    tries=0
    until inside glassline health --ready /etc/glassline/glassline.yml 2>"$work/unwell"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then
            cat "$work/log" "$work/unwell" >&2
            fail "the installed server does not become ready"
        fi
        sleep 0.2
    done
}

stop() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with $?: $(cat "$work/log")"
}

installs() {
    inside dpkg --no-triggers --install "/mnt/packages/old.deb"
    inside glassline --version | grep -q 'commit .*features' || fail "no version"
    found=$(stat -c '%U:%G %a' "$configuration")
    # Names are those of the copy.
    inside stat -c '%U:%G %a' /etc/glassline/glassline.yml | grep -qx 'root:glassline 640' ||
        fail "the configuration is $found"
    inside stat -c '%U:%G %a' /var/lib/glassline | grep -qx 'glassline:glassline 750' ||
        fail "the state folder is not the user's"
    for page in glassline glassline-serve; do
        [ -s "$root/usr/share/man/man1/$page.1.gz" ] || fail "no manual page $page"
    done
    inside bash -n /usr/share/bash-completion/completions/glassline || fail "completions"
    start
    echo installed
}

upgrades() {
    echo 'shards: 1 # by the operator' >>"$configuration"
    inside dpkg --no-triggers --install "/mnt/packages/new.deb"
    case $(inside dpkg-query --show --showformat '${Version}' glassline) in
    *-2) ;;
    *) fail "the version is still the old one" ;;
    esac
    grep -q 'by the operator' "$configuration" || fail "the configuration was overwritten"
    # The old program served meanwhile; what the script of the package restarts is started here.
    inside glassline health || fail "the upgrade stopped the server"
    stop
    start
    stop
    echo upgraded
}

removes() {
    inside dpkg --no-triggers --remove glassline
    [ ! -e "$root/usr/bin/glassline" ] || fail "the program is still there"
    [ -s "$configuration" ] || fail "removing took the configuration"
    inside dpkg --no-triggers --purge glassline
    [ ! -e "$root/etc/glassline" ] || fail "purging left the configuration"
    [ ! -e "$root/var/lib/glassline" ] || fail "purging left the state"
    echo removed
}

# Debian's rpm knows nothing of Debian's libraries, hence --nodeps.
rpm_installs_and_removes() {
    inside rpm --install --nodeps "/mnt/packages/new.rpm"
    inside stat -c '%U:%G %a' /etc/glassline/glassline.yml | grep -qx 'root:glassline 640' ||
        fail "the configuration of the rpm is open"
    start
    stop
    owned=$(inside rpm --query --list glassline)
    for line in $owned; do
        case $line in
        *glassline*) ;;
        *) fail "the rpm owns $line" ;;
        esac
    done
    inside rpm --erase glassline
    [ ! -e "$root/usr/bin/glassline" ] || fail "the program of the rpm is still there"
    echo rpm
}

# Exposure by systemd's own count, in tenths: 0 is closed, 100 is a service of root.
is_hardened() {
    if ! command -v systemd-analyze >/dev/null; then
        echo "no systemd-analyze: the unit is not judged"
        return
    fi
    unit=$root/usr/lib/systemd/system/glassline.service
    systemd-analyze security --offline=true --threshold=20 "$unit" >"$work/judged" ||
        fail "$(tail -n 1 "$work/judged")"
    inside systemd-analyze verify glassline.service 2>"$work/verified" || true
    if grep -E 'Unknown|Failed|Invalid' "$work/verified"; then
        fail "the unit has a mistake"
    fi
    echo hardened
}

prepare
installs
is_hardened
upgrades
removes
rpm_installs_and_removes
