#!/bin/sh
# Installs, reloads, stops, upgrades and removes the package $1/old.deb under systemd, which is
# the first process of a copy of this system that is thrown away: an overlay in memory, with
# network, processes and control groups of its own. Called by tests/packages.rs as root.
#
#   packages_systemd.sh FOLDER   tries the package
#   packages_systemd.sh --probe  says by its exit code whether systemd can run here
set -eu

packages=$1
systemd=/lib/systemd/systemd
# Control groups of the copy are below this one. Systemd wants the second version of them.
groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET || true)
group=$groups/glassline-test-$$
configuration=/etc/glassline/glassline.yml
first=

fail() {
    echo "packages_systemd.sh: $1" >&2
    [ -z "$first" ] || inside journalctl --unit glassline --no-pager --lines 40 --output cat >&2
    exit 1
}

# With the copy's first process, all others of it end.
clean() {
    tries=0
    while [ -d "$group" ] && [ "$tries" -lt 50 ]; do
        # shellcheck disable=SC2046 # numbers
        kill -KILL $(find "$group" -name cgroup.procs -exec cat {} +) 2>/dev/null || true
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || sleep 0.1
        tries=$((tries + 1))
    done
}

# Runs a command beside systemd in the copy.
inside() {
    nsenter --target "$first" --mount --net --pid --uts --ipc --root --wd \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}

# Waits until the command succeeds; the first word says what is waited for.
until_true() {
    what=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || fail "waited in vain: $what"
        sleep 0.2
    done
}

# Makes the copy and becomes its first process; `boot` calls it in namespaces of its own.
become_first() {
    work=$packages/copy
    root=$work/root
    mkdir -p "$work"
    mount -t tmpfs tmpfs "$work"
    mkdir "$work/changes" "$work/inner" "$root"
    mount -t overlay overlay \
        -o "lowerdir=/,upperdir=$work/changes,workdir=$work/inner" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/dev"
    for device in null zero full random urandom tty; do
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    done
    # `PrivateDevices` of the unit copies these.
    mkdir -p "$root/dev/pts" "$root/dev/shm" "$root/mnt/packages"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount --bind "$packages" "$root/mnt/packages"
    # This machine's own services stay off, and no policy of its image forbids to start ours.
    rm -rf "$root"/etc/systemd/system/*.wants "$root/usr/sbin/policy-rc.d"
    ip link set lo up
    exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$root" "$systemd" --unit=basic.target
}

# The same package with a higher number.
make_newer() {
    dpkg-deb --raw-extract "$packages/old.deb" "$packages/newer"
    sed -i 's/^Version: .*/&.1/' "$packages/newer/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$packages/newer" "$packages/new.deb"
    rm -r "$packages/newer"
}

boot() {
    mkdir "$group"
    trap clean EXIT
    # shellcheck disable=SC2016 # for the inner shell
    sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" \
        unshare --mount --net --pid --fork --cgroup --uts --ipc \
        sh "$0" --first "$packages" >&2 &
    until_true "systemd takes its control group" \
        grep -qs . "$group/init.scope/cgroup.procs"
    first=$(head -n 1 "$group/init.scope/cgroup.procs")
    until_true "basic.target" inside systemctl --quiet is-active basic.target
}

unit() {
    inside systemctl show --value --property "$1" glassline
}

serves() {
    inside glassline health --ready "$configuration" 2>/dev/null
}

installs() {
    inside dpkg --no-triggers --install /mnt/packages/old.deb
    # `Type=notify`: the script of the package returns when the listeners are open.
    [ "$(unit ActiveState)" = active ] || fail "the service is $(unit ActiveState)"
    case $(unit StatusText) in
    serving:*8889*) ;;
    *) fail "the status is: $(unit StatusText)" ;;
    esac
    serves || fail "the service does not answer"
    status=$(inside cat "/proc/$(unit MainPID)/status")
    for line in 'NoNewPrivs:[[:space:]]*1' 'Seccomp:[[:space:]]*2' 'CapEff:[[:space:]]*0*400'; do
        echo "$status" | grep -qx "$line" || fail "not $line: $status"
    done
    user=$(inside stat -c %U "/proc/$(unit MainPID)")
    [ "$user" = glassline ] || fail "the service runs as $user"
    inside systemctl --quiet is-enabled glassline || fail "the service does not start at boot"
    echo installed
}

# A wrong configuration is refused aloud, and the server goes on with the one that it has.
reloads() {
    before=$(unit MainPID)
    inside sed -i 's/^  demo: demo$/&\n  second: demo/' "$configuration"
    inside systemctl reload glassline || fail "no reload"
    until_true "the second stream" has_second
    echo 'colour: red' | inside tee -a "$configuration" >/dev/null
    if inside systemctl reload glassline; then
        fail "a wrong configuration was reloaded without a word"
    fi
    inside journalctl --unit glassline --output cat | grep -q "unknown key 'colour'" ||
        fail "the log does not name the wrong key"
    inside sed -i '$d' "$configuration"
    serves || fail "a wrong configuration ended the service"
    [ "$(unit MainPID)" = "$before" ] || fail "a reload restarted the service"
    echo reloaded
}

has_second() {
    inside glassline api list streams | grep -q '^ *second '
}

# With a shorter deadline, which an operator's own file sets.
restarts_when_stuck() {
    own=/etc/systemd/system/glassline.service.d
    inside mkdir -p "$own"
    printf '[Service]\nWatchdogSec=4\n' | inside tee "$own/watchdog.conf" >/dev/null
    inside systemctl daemon-reload
    inside systemctl restart glassline
    stuck=$(unit MainPID)
    inside kill -STOP "$stuck"
    until_true "the watchdog" was_restarted
    until_true "the restarted server" serves
    echo restarted
}

was_restarted() {
    [ "$(unit NRestarts)" -gt 0 ] && [ "$(unit MainPID)" -gt 0 ] &&
        [ "$(unit MainPID)" != "$stuck" ]
}

upgrades() {
    before=$(unit MainPID)
    inside dpkg --no-triggers --install /mnt/packages/new.deb
    [ "$(unit ActiveState)" = active ] || fail "after the upgrade the service is off"
    [ "$(unit MainPID)" != "$before" ] || fail "the old program still runs"
    inside grep -q '^  second: demo' "$configuration" || fail "the configuration is another"
    until_true "the new program" serves
    # What the operator has turned off stays off.
    inside systemctl disable --now glassline
    inside dpkg --no-triggers --install /mnt/packages/old.deb
    [ "$(unit ActiveState)" = inactive ] || fail "an upgrade started a disabled service"
    inside systemctl enable --now glassline
    echo upgraded
}

removes() {
    inside dpkg --no-triggers --remove glassline
    [ "$(unit ActiveState)" = inactive ] || fail "removed, the service is $(unit ActiveState)"
    if inside pidof glassline; then fail "the program outlives its package"; fi
    inside dpkg --no-triggers --purge glassline
    left=$(inside find /etc/systemd/system /var/lib/systemd -name 'glassline.service')
    [ -z "$left" ] || fail "purging left $left"
    echo removed
}

probe() {
    [ -x "$systemd" ] || fail "systemd is not installed"
    [ -n "$groups" ] || fail "no control groups of the second version are mounted"
    mkdir "$group" || fail "no right to make control groups"
    rmdir "$group"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --mount --net --pid --fork --cgroup --uts --ipc sh -c \
        'mount -t cgroup2 cgroup2 /mnt' || fail "no right to mount control groups"
}

case $1 in
--probe) probe ;;
--first)
    packages=$2
    become_first
    ;;
*)
    make_newer
    boot
    installs
    reloads
    restarts_when_stuck
    upgrades
    removes
    ;;
esac
