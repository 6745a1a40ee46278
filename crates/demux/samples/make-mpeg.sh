#!/bin/sh
# Makes the transport and program streams and the bare pictures with B-frames here
# (FFmpeg 5.1). The numbers in the tests are those of what is committed: another
# version of FFmpeg writes other bytes.
set -eu
cd "$(dirname "$0")"
pictures() { echo "-f lavfi -i testsrc2=s=128x96:r=$1:d=$2"; }
sine() { echo "-f lavfi -i sine=440:r=$1:d=$2"; }
make() { ffmpeg -v error -y "$@"; }
x265=log-level=none:crf=36:pools=none:frame-threads=1

make $(pictures 25 2.4) $(sine 48000 2.4) -c:v libx264 -preset fast -g 20 -bf 2 -qp 34 \
    -threads 1 -c:a mp2 -b:a 32k -ac 1 -f mpegts h264-mp2.ts
make $(pictures 25 1.2) -c:v libx265 -preset fast -x265-params "keyint=10:$x265" \
    -f mpegts h265.ts
make -f lavfi -i "sine=frequency=440:sample_rate=48000:duration=1" -c:a libopus -b:a 24k -ac 2 \
    -f mpegts opus.ts
make -f lavfi -i "aevalsrc=0.2*sin(440*2*PI*t)|0.2*sin(550*2*PI*t)|0.2*sin(660*2*PI*t)|0|0.2*sin(770*2*PI*t)|0.2*sin(880*2*PI*t):c=5.1:s=48000:d=0.3" \
    -c:a libopus -b:a 64k -mapping_family 1 -f mpegts surround.ts
make -f lavfi -i "sine=frequency=440:sample_rate=48000:duration=0.4" -c:a aac -b:a 32k -ac 1 \
    -f mpegts -mpegts_m2ts_mode 1 unnamed.m2ts
make $(pictures 25 1.2) -c:v mpeg2video -q:v 20 -g 10 -bf 2 -threads 1 -f mpegts mpeg2.ts
make $(pictures 25 2) -c:v libx264 -preset slow -g 20 -bf 3 -b_strategy 0 \
    -x264-params b-pyramid=normal:scenecut=0 -qp 36 -threads 1 \
    -bsf:v filter_units=remove_types=6 b-frames.h264
make -f lavfi -i testsrc2=s=160x96:r=15:d=3 -c:v libx264 -preset veryfast -crf 38 -pix_fmt yuv420p \
    -x264-params intra-refresh=1:keyint=15:bframes=0 intra-refresh.h264
make $(pictures 30000/1001 1.6) -c:v libx265 -preset fast -x265-params \
    "keyint=16:min-keyint=16:scenecut=0:bframes=3:b-adapt=0:open-gop=1:info=0:$x265" \
    open-gop.h265
make $(pictures 25 2.4) $(sine 44100 2.4) -c:v mpeg1video -q:v 20 -g 12 -bf 2 -threads 1 \
    -c:a mp2 -b:a 32k -ac 1 -f mpeg mpeg1-mp2.mpg
make $(pictures 30000/1001 1.6) $(sine 48000 1.6) -c:v mpeg2video -q:v 20 -g 12 -bf 2 \
    -threads 1 -c:a ac3 -b:a 64k -ac 2 -f vob mpeg2-ac3.vob
make -i mpeg2-ac3.vob -map 0:v -c copy -f mpeg2video open-gop.m2v
