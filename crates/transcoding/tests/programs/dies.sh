#!/bin/sh
# A decoder that ends at once, with its reason.
echo "a line before" >&2
echo "Unrecognized option 'fps_mode'." >&2
exit 1
