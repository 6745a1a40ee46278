#!/usr/bin/env python3
"""Speech quality of jitter buffers: PESQ-WB and PLCMOS of what they play.

    apt-get install espeak-ng
    python3 -m venv target/voice-quality
    target/voice-quality/bin/pip install -r lab/peers/voice_quality.txt
    target/voice-quality/bin/python lab/peers/voice_quality.py target/voice-quality/run

Makes a minute of speech (espeak-ng, or --speech WAV), lets the example `voice_quality`
of glassline-lab play it over impaired paths, scores every eight seconds and writes
scores.csv; the table on stdout has the means. PESQ aligns in time by itself, as far as
delays stay within the search that ITU-T P.862 makes.
"""

import argparse
import csv
import pathlib
import subprocess
import warnings
import wave

import numpy
from pesq import pesq
from scipy.signal import resample_poly
from speechmos import plcmos

RATE = 16_000
SEGMENT_S = 8
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


def speech(folder, given):
    """One channel at 48 kHz."""
    parts = []
    if given:
        parts.append(samples_of(given))
    else:
        # The Harvard sentences (IEEE Recommended Practice, 1969), list 1, by four voices.
        for voice in VOICES:
            path = folder / "espeak.wav"
            subprocess.run(
                ["espeak-ng", "-v", voice, "-s", "165", "-w", str(path), SENTENCES],
                check=True,
            )
            parts.append(samples_of(path))
    made = [resample_poly(data, 48_000, rate) for rate, data in parts]
    sound = numpy.concatenate(made)
    return 0.7 * sound / numpy.max(numpy.abs(sound))


def store(path, sound):
    (numpy.clip(sound, -1, 1) * 32767).astype("<i2").tofile(path)


def score(reference, heard):
    """Means over the segments: PESQ-WB, PLCMOS."""
    length = SEGMENT_S * RATE
    narrow = []
    wide = []
    for begin in range(0, min(len(reference), len(heard)) - length, length):
        said = reference[begin : begin + length]
        played = heard[begin : begin + length]
        wide.append(pesq(RATE, said, played, "wb"))
        narrow.append(plcmos.run(played.astype(numpy.float32), RATE)["plcmos"])
    return numpy.mean(wide), numpy.mean(narrow)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--speech", type=pathlib.Path, help="WAV, one channel, 16 bits")
    parser.add_argument("--paths", help="only these, as ar98,loss-5")
    parser.add_argument("--example", help="a built `voice_quality`, else cargo builds it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    sound = speech(folder, arguments.speech)
    said = folder / "speech.s16"
    store(said, sound)
    command = [arguments.example] if arguments.example else [
        "cargo", "run", "--release", "-q", "-p", "glassline-lab",
        "--example", "voice_quality", "--",
    ]
    subprocess.run([*command, str(said), str(folder)], check=True)
    reference = resample_poly(sound, RATE, 48_000)
    with open(folder / "conditions.csv") as file:
        conditions = list(csv.DictReader(file))
    if arguments.paths:
        paths = arguments.paths.split(",")
        conditions = [row for row in conditions if row["path"] in paths]
    with open(folder / "scores.csv", "w") as file:
        table = csv.DictWriter(file, [*conditions[0], "pesq_wb", "plcmos"])
        table.writeheader()
        for row in conditions:
            path = folder / f"{row['path']}-{row['contender']}.s16"
            heard = numpy.fromfile(path, dtype="<i2") / 32768
            wide, plc = score(reference, heard)
            table.writerow({**row, "pesq_wb": f"{wide:.3f}", "plcmos": f"{plc:.3f}"})
            print(
                f"{row['path']:<10} {row['contender']:<16} PESQ-WB {wide:.3f}"
                f"  PLCMOS {plc:.3f}  wait {row['wait_mean_ms']:>6} ms"
                f"  concealed {100 * float(row['concealed_ratio']):.3f} %"
                f"  stretched {100 * float(row['stretched_ratio']):.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
