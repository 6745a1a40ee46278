# The configuration may hold passwords of cameras and tokens: the service reads it, others do not.
chown root:glassline /etc/glassline /etc/glassline/glassline.yml
chmod 0750 /etc/glassline
chmod 0640 /etc/glassline/glassline.yml
