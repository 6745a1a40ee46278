#!/usr/bin/env python3
"""Speech quality of jitter buffers: PESQ-WB and PLCMOS of what they play.

    apt-get install espeak-ng
    python3 -m venv target/voice-quality
    target/voice-quality/bin/pip install -r peers/voice_quality.txt
    target/voice-quality/bin/python peers/voice_quality.py target/voice-quality/run

Makes speech (espeak-ng, or of --speech WAV, as often as it takes to last --seconds), lets
the example `voice_quality` of glassline-lab play it over impaired paths, scores stretches
of eight seconds or more that begin and end in pauses, as ITU-T P.862.3 wants them, and
writes scores.csv; the table on stdout has the means.

Speech of people, without asking anybody: the source distribution of pocketsphinx 5.1.1 on
PyPI has 25 s of a LibriVox reader (public domain) in test/data/librivox/*.wav.
With --fail-if, exits with 3 if our steady buffer scores less than NetEq M98's model by so
much on any of the paths.
"""

import argparse
import csv
import pathlib
import subprocess
import sys
import warnings
import wave

import numpy
from pesq import pesq
from scipy.signal import resample_poly
from speechmos import plcmos

RATE = 16_000
SEGMENT_S = 8
# Between sentences of one voice and the next.
PAUSES_S = (0.3, 0.7)
# Below the loudest 20 ms by so much it is quiet, and for so long it is a pause.
QUIET_DB = 40
PAUSE_MS = 200
# What is heard may come so much later than what was said.
LATE_S = 0.1
VOICES = ["en-us+m3", "en-gb+f2", "en-us+m7", "en-gb+f4"]
SENTENCES = """The birch canoe slid on the smooth planks. Glue the sheet to the dark blue
background. It is easy to tell the depth of a well. These days a chicken leg is a rare
dish. Rice is often served in round bowls. The juice of lemons makes fine punch. The box
was thrown beside the parked truck. The hogs were fed chopped corn and garbage. Four hours
of steady work faced us. A large size in stockings is hard to sell."""


def samples_of(path):
    with wave.open(str(path)) as file:
        assert file.getnchannels() == 1 and file.getsampwidth() == 2, path
        data = numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return file.getframerate(), data.astype(numpy.float64) / 32768


def speech(folder, given, seconds):
    """One channel at 48 kHz."""
    parts = [samples_of(path) for path in given]
    if not given:
        # The Harvard sentences (IEEE Recommended Practice, 1969), list 1, by four voices.
        for voice in VOICES:
            path = folder / "espeak.wav"
            subprocess.run(
                ["espeak-ng", "-v", voice, "-s", "165", "-w", str(path), SENTENCES],
                check=True,
            )
            parts.append(samples_of(path))
    made = [resample_poly(data, 48_000, rate) for rate, data in parts]
    made = [0.7 * voice / numpy.max(numpy.abs(voice)) for voice in made]
    # The same sentences meet other delays each time, and in another order.
    random = numpy.random.default_rng(3)
    audio = []
    while sum(map(len, audio)) < seconds * 48_000:
        for place in random.permutation(len(made)):
            pause = int(48_000 * random.uniform(*PAUSES_S))
            audio += [random.normal(0, 1e-4, pause), made[place]]
    return numpy.concatenate([*audio, numpy.zeros(24_000)])


def store(path, audio):
    (numpy.clip(audio, -1, 1) * 32767).astype("<i2").tofile(path)


def segments(reference):
    """Where to cut: in pauses, a segment or more apart."""
    step = RATE // 50
    blocks = reference[: len(reference) // step * step].reshape(-1, step)
    levels = numpy.sqrt(numpy.mean(blocks**2, axis=1))
    quiet = levels < levels.max() * 10 ** (-QUIET_DB / 20)
    cuts = []
    begin = None
    for block, is_quiet in enumerate([*quiet, False]):
        if is_quiet and begin is None:
            begin = block
        elif not is_quiet and begin is not None:
            middle = (begin + block) // 2 * step
            is_long = (block - begin) * 20 >= PAUSE_MS
            if is_long and (not cuts or middle - cuts[-1] >= SEGMENT_S * RATE):
                cuts.append(middle)
            begin = None
    return list(zip(cuts, cuts[1:]))


def score(reference, heard):
    """Means over the segments: PESQ-WB, PLCMOS."""
    late = int(LATE_S * RATE)
    wide = []
    plc = []
    for begin, end in segments(reference):
        if end + late > len(heard):
            break
        played = heard[begin : end + late]
        wide.append(pesq(RATE, reference[begin:end], played, "wb"))
        plc.append(plcmos.run(played.astype(numpy.float32), RATE)["plcmos"])
    return numpy.mean(wide), numpy.mean(plc)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--speech", type=pathlib.Path, nargs="+", default=[],
        help="WAV files, one channel, 16 bits",
    )
    parser.add_argument("--seconds", type=float, default=100, help="of speech")
    parser.add_argument("--paths", help="only these, as ar98,loss-5")
    parser.add_argument("--fail-if", type=float, help="what steady may lack, in PESQ")
    parser.add_argument("--example", help="a built `voice_quality`, else cargo builds it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    audio = speech(folder, arguments.speech, arguments.seconds)
    said = folder / "speech.s16"
    store(said, audio)
    command = [arguments.example] if arguments.example else [
        "cargo", "run", "--release", "-q", "-p", "glassline-lab",
        "--example", "voice_quality", "--",
    ]
    subprocess.run([*command, str(said), str(folder)], check=True)
    reference = resample_poly(audio, RATE, 48_000)
    with open(folder / "conditions.csv") as file:
        conditions = list(csv.DictReader(file))
    if arguments.paths:
        paths = arguments.paths.split(",")
        conditions = [row for row in conditions if row["path"] in paths]
    scores = {}
    with open(folder / "scores.csv", "w") as file:
        table = csv.DictWriter(file, [*conditions[0], "pesq_wb", "plcmos"])
        table.writeheader()
        for row in conditions:
            path = folder / f"{row['path']}-{row['contender']}.s16"
            heard = numpy.fromfile(path, dtype="<i2") / 32768
            wide, plc = score(reference, heard)
            scores[row["path"], row["contender"]] = wide
            table.writerow({**row, "pesq_wb": f"{wide:.3f}", "plcmos": f"{plc:.3f}"})
            print(
                f"{row['path']:<10} {row['contender']:<16} PESQ-WB {wide:.3f}"
                f"  PLCMOS {plc:.3f}  wait {row['wait_mean_ms']:>6} ms"
                f"  concealed {100 * float(row['concealed_ratio']):.3f} %"
                f"  stretched {100 * float(row['stretched_ratio']):.2f} %",
                flush=True,
            )
    lacks = {
        path: scores[path, "neteq-m98"] - wide
        for (path, contender), wide in scores.items()
        if contender == "steady"
    }
    worse = {
        path: lack for path, lack in lacks.items()
        if arguments.fail_if is not None and lack > arguments.fail_if
    }
    for path, lack in worse.items():
        print(f"{path}: steady lacks {lack:.3f} of NetEq M98's model")
    return 3 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
