# Makes the user of the service and what it may read. Packages of both kinds run it.
if ! getent passwd glassline >/dev/null; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers glassline.conf
    else
        useradd --system --user-group --home-dir /var/lib/glassline --no-create-home \
            --shell /usr/sbin/nologin --comment "Glassline media server" glassline
    fi
fi
install -d -o glassline -g glassline -m 0750 /var/lib/glassline
