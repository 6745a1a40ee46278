#!/bin/sh
# A decoder that reads nothing and shows nothing, with a process of its own.
echo "still thinking" >&2
/bin/sleep 600 &
wait
