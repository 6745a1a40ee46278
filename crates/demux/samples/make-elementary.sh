#!/bin/sh
# Makes the samples without a container anew with FFmpeg 5.1, in the folder that this
# file is in. The tests know the figures that `ffprobe -show_packets` prints for these
# very files, of MPEG-4 for the same pictures in MP4: another FFmpeg makes others.
set -e
cd "$(dirname "$0")"
sine() {
    rate=$1 seconds=$2
    shift 2
    ffmpeg -loglevel error -y -f lavfi -i "sine=440:r=$rate:d=$seconds" "$@"
}
pictures() {
    rate=$1 seconds=$2
    shift 2
    ffmpeg -loglevel error -y -f lavfi -i "testsrc=s=64x48:r=$rate:d=$seconds" \
        -c:v mpeg4 -q:v 20 "$@"
}
sine 44100 0.45 -ac 2 -c:a aac -b:a 32k sine.aac
# 44.1 kHz, so that frames have two lengths.
sine 44100 0.3 -ac 2 -c:a ac3 -b:a 64k sine.ac3
# Tags at both ends, and a directory of the file in the first frame.
sine 44100 0.3 -ac 1 -c:a libmp3lame -b:a 48k -metadata title=sine -write_id3v1 1 sine.mp3
sine 22050 0.3 -ac 1 -c:a libmp3lame -q:a 9 vbr.mp3
sine 48000 0.2 -ac 2 -c:a mp2 -b:a 64k sine.mp2
pictures 25 1.2 -bf 0 -g 10 -bsf:v dump_extra -f m4v simple.m4e
pictures 30000/1001 1.5 -bf 2 -g 12 -f m4v between.m4e
# Of DV the blocks that say what a frame is: 120,000 bytes would say no more.
for system in ntsc pal; do
    ffmpeg -loglevel error -f lavfi -i "testsrc=d=0.2" -f lavfi -i "sine=d=0.2" -shortest \
        -target $system-dv -f dv - | head -c 640 >$system.dif
done
