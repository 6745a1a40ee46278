#!/bin/sh
# Makes the samples of containers anew with FFmpeg 5.1, in the folder that this file is in.
# The tests know the figures that `ffprobe -show_packets` prints for these very
# files: another FFmpeg makes others.
set -e
cd "$(dirname "$0")"
make() {
    file=$1
    shift
    ffmpeg -loglevel error -y \
        -f lavfi -i "testsrc=size=96x64:rate=25:duration=2" \
        -f lavfi -i "sine=frequency=440:sample_rate=48000:duration=2" \
        "$@" -pix_fmt "$pixels" -fflags +bitexact -flags:v +bitexact -flags:a +bitexact "$file"
}
pixels=yuv420p
h264="-c:v libx264 -preset veryfast -g 20 -b:v 60k"
aac="-c:a aac -b:a 32k -ac 2"

cat > text.srt <<'TEXT'
1
00:00:00,200 --> 00:00:00,900
one

2
00:00:01,000 --> 00:00:01,800
two
lines

TEXT
# B-frames, AAC, text.
make h264-aac-text.mkv -i text.srt $h264 -bf 2 $aac -c:s srt -map 0 -map 1 -map 2
rm text.srt
make vp8-vorbis.webm -c:v libvpx -b:v 60k -g 20 -ac 2 -c:a libvorbis -q:a 0
make vp9-opus.webm -c:v libvpx-vp9 -b:v 60k -g 20 -cpu-used 8 -c:a libopus -b:a 24k
make h265-mp3.mkv -c:v libx265 -x265-params log-level=none:keyint=20:bframes=2 -b:v 60k \
    -c:a libmp3lame -b:a 32k
make av1-ac3.mkv -c:v libaom-av1 -b:v 60k -g 20 -cpu-used 8 -c:a ac3 -b:a 64k
make mpeg4-pcm.mkv -t 0.5 -c:v mpeg4 -g 10 -b:v 60k -c:a pcm_s16le
# Sizes of segment and clusters unknown, as of a live stream; no audio, so that
# clusters begin at keyframes.
make live.webm -an -c:v libvpx -b:v 60k -g 20 -live 1 -cluster_time_limit 500
make theora-vorbis.ogv -c:v libtheora -b:v 60k -g 20 -ac 2 -c:a libvorbis -q:a 0
make vorbis.ogg -vn -ac 2 -c:a libvorbis -q:a 0
# B-frames and an edit list for them and for what warms the AAC decoder up.
make h264-aac.mp4 $h264 -bf 2 $aac
make h265-opus.mp4 -c:v libx265 -x265-params log-level=none:keyint=20:bframes=2 -b:v 60k \
    -c:a libopus -b:a 24k -tag:v hvc1
make fragments.mp4 $h264 -bf 2 $aac -movflags +frag_keyframe+empty_moov+default_base_moof
make negative-ctts.mp4 $h264 -bf 2 $aac -movflags +negative_cts_offsets+faststart
make av1.mp4 -an -c:v libaom-av1 -b:v 60k -g 20 -cpu-used 8
make vp9.mp4 -an -c:v libvpx-vp9 -b:v 60k -g 20 -cpu-used 8
make mpeg4-ac3.mp4 -c:v mpeg4 -g 20 -b:v 60k -c:a ac3 -b:a 64k
make mp3.mp4 -vn -c:a libmp3lame -b:a 32k
pixels=yuvj420p
make jpeg-pcm.mov -t 0.4 -c:v mjpeg -q:v 20 -c:a pcm_s16le
pixels=yuv420p
make sound.m4a -vn $aac
# QuickTime puts the configuration of AAC one box deeper, and ends that list with an empty box.
make aac.mov -t 1 $h264 -bf 0 $aac -shortest
make h264-aac.flv -t 1 $h264 -bf 2 $aac
make mp3.flv -t 1 -vn -ar 44100 -c:a libmp3lame -b:a 32k
# Copied from MP4: lengths in place of start codes.
ffmpeg -loglevel error -y -i h264-aac.mp4 -an -c:v copy -frames:v 20 h264-lengths.avi
# B-frames, whose times AVI does not have; PCM in chunks.
make h264-pcm.avi -t 1 $h264 -bf 2 -c:a pcm_s16le -ar 8000
make mpeg4-mp3.avi -t 1 -c:v mpeg4 -g 10 -b:v 60k -c:a libmp3lame -b:a 32k
pixels=yuvj420p
make jpeg-ulaw.avi -t 0.4 -c:v mjpeg -q:v 20 -c:a pcm_mulaw -ar 8000
pixels=yuv420p
# Opus of six channels, which WebRTC does not play.
make surround.mkv -t 0.4 -c:v libvpx -b:v 60k -ac 6 -c:a libopus -b:a 48k
make surround.mp4 -t 0.4 $h264 -bf 0 -ac 6 -c:a libopus -b:a 48k
# FLAC with what FFmpeg decodes of it: two channels of 16 bits, and one of 24 bits.
pcm() {
    ffmpeg -loglevel error -y -i "$1" -f s16be -c:a pcm_s16be "$1.s16be"
}
ffmpeg -loglevel error -y -f lavfi -i "sine=frequency=440:sample_rate=44100:duration=0.25" \
    -f lavfi -i "anoisesrc=duration=0.25:color=pink:seed=7:amplitude=0.02:sample_rate=44100" \
    -filter_complex "[0][1]amerge=inputs=2" -fflags +bitexact -flags:a +bitexact stereo.flac
ffmpeg -loglevel error -y -f lavfi -i "sine=frequency=440:sample_rate=48000:duration=0.15" \
    -c:a flac -sample_fmt s32 -bits_per_raw_sample 24 -fflags +bitexact -flags:a +bitexact deep.flac
pcm stereo.flac
pcm deep.flac
# The same FLAC in containers.
for file in flac.mkv flac.mp4 flac.ogg; do
    ffmpeg -loglevel error -y -i stereo.flac -c copy -map_metadata -1 -fflags +bitexact "$file"
done
make vp8.ivf -t 1 -c:v libvpx -b:v 60k -g 12 -an
make av1.ivf -t 0.6 -c:v libaom-av1 -cpu-used 8 -b:v 60k -g 8 -lag-in-frames 0 -an
