#!/usr/bin/env python3
"""Speech quality of jitter buffers: PESQ-WB and PLCMOS of what they play.

    cargo xtask voice-quality
    target/peers/voice-quality/bin/python peers/voice_quality.py target/voice-quality/run

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

import numpy
from scipy.signal import resample_poly

from voice_scores import RATE, score, scorers, speech, store


def scores_of(reference, heard):
    """Means over the segments: PESQ-WB, PLCMOS. Both packages are in the environment."""
    found = scorers()
    return score(found["pesq_wb"], reference, heard), score(found["plcmos"], reference, heard)


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
            wide, plc = scores_of(reference, heard)
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
