#!/usr/bin/env python3
"""Speech for jitter buffers, and scores of what they play: `glassline bench jitter --quality`.

    voice_scores.py check                        the scores that cannot be given, as JSON
    voice_scores.py make FOLDER SECONDS [WAV…]   speech.s16 at 48 kHz, reference.s16 at 16 kHz
    voice_scores.py score REFERENCE [HEARD…]     a line of JSON for each file, at 16 kHz

Without WAV files three voices of espeak-ng read. Scored are stretches of eight seconds or more
that begin and end in pauses, as ITU-T P.862.3 wants them. The first line of `score` names the
scores that cannot be given, because their package is missing. Files have one channel of raw
16-bit samples. The environment: `cargo xtask voice-quality`.
"""

import json
import pathlib
import subprocess
import sys
import warnings
import wave

try:
    import numpy
    from scipy.signal import resample_poly
except ImportError as error:
    sys.exit(f"{error}: speech is made and cut with numpy and scipy")

RATE = 16_000
SPEECH_RATE = 48_000
SEGMENT_S = 8
# Between sentences of one voice and the next.
PAUSES_S = (0.3, 0.7)
# Below the loudest 20 ms by so much it is quiet, and for so long it is a pause.
QUIET_DB = 40
PAUSE_MS = 200
# What is heard may come so much later than what was said.
LATE_S = 0.1
# The score of a stretch in which no speech is heard.
PESQ_LEAST = 1.0
VOICES = ["en-us+m3", "en-gb+f2", "en-gb-scotland+m7"]
# The Harvard sentences (IEEE Recommended Practice, 1969), list 1.
SENTENCES = """The birch canoe slid on the smooth planks. Glue the sheet to the dark blue
background. It is easy to tell the depth of a well. These days a chicken leg is a rare
dish. Rice is often served in round bowls. The juice of lemons makes fine punch. The box
was thrown beside the parked truck. The hogs were fed chopped corn and garbage. Four hours
of steady work faced us. A large size in stockings is hard to sell."""


def samples_of(path):
    with wave.open(str(path)) as file:
        if file.getnchannels() != 1 or file.getsampwidth() != 2:
            sys.exit(f"{path}: needs one channel of 16-bit samples")
        data = numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return file.getframerate(), data.astype(numpy.float64) / 32768


def espeak(folder, voice):
    path = folder / "espeak.wav"
    command = ["espeak-ng", "-v", voice, "-s", "165", "-w", str(path), SENTENCES]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        sys.exit("espeak-ng is missing: apt-get install espeak-ng, or give --speech WAV")
    return samples_of(path)


def speech(folder, given, seconds):
    """One channel at 48 kHz, `seconds` long or a little longer."""
    parts = [samples_of(path) for path in given]
    parts = parts or [espeak(folder, voice) for voice in VOICES]
    made = [resample_poly(data, SPEECH_RATE, rate) for rate, data in parts]
    for path, voice in zip(given or VOICES, made):
        if not numpy.any(voice):
            sys.exit(f"{path}: nothing is said in it")
    made = [0.7 * voice / numpy.max(numpy.abs(voice)) for voice in made]
    # The same sentences meet other delays each time, and in another order.
    random = numpy.random.default_rng(3)
    audio = []
    while sum(map(len, audio)) < seconds * SPEECH_RATE:
        for place in random.permutation(len(made)):
            pause = int(SPEECH_RATE * random.uniform(*PAUSES_S))
            audio += [random.normal(0, 1e-4, pause), made[place]]
    return numpy.concatenate([*audio, numpy.zeros(SPEECH_RATE // 2)])


def store(path, audio):
    (numpy.clip(audio, -1, 1) * 32767).astype("<i2").tofile(path)


def load(path):
    return numpy.fromfile(path, dtype="<i2") / 32768


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


def scorers():
    """By name: a function of reference and heard, or the package that is missing."""
    found = {}
    try:
        from pesq import NoUtterancesError, pesq

        def wide_band(said, heard):
            if not numpy.any(heard):
                return PESQ_LEAST
            try:
                return pesq(RATE, said, heard, "wb")
            except NoUtterancesError:
                # Nothing of the stretch was heard.
                return PESQ_LEAST

        found["pesq_wb"] = wide_band
    except ImportError as error:
        found["pesq_wb"] = str(error)
    try:
        from speechmos import plcmos

        found["plcmos"] = lambda _, heard: plcmos.run(heard.astype("float32"), RATE)["plcmos"]
    except ImportError as error:
        found["plcmos"] = str(error)
    return found


def score(scorer, reference, heard):
    """Mean over the segments, or None if none of them was heard to its end."""
    late = int(LATE_S * RATE)
    parts = [
        scorer(reference[begin:end], heard[begin : end + late])
        for begin, end in segments(reference)
        if end + late <= len(heard)
    ]
    return float(numpy.mean(parts)) if parts else None


def check():
    print(json.dumps(missing_of(scorers())))


def missing_of(found):
    return {name: why for name, why in found.items() if isinstance(why, str)}


def make(folder, seconds, *given):
    folder = pathlib.Path(folder)
    audio = speech(folder, given, float(seconds))
    store(folder / "speech.s16", audio)
    store(folder / "reference.s16", resample_poly(audio, RATE, SPEECH_RATE))


def score_all(reference, *files):
    found = scorers()
    missing = missing_of(found)
    print(json.dumps(missing), flush=True)
    said = load(reference)
    for path in files:
        heard = load(path)
        scores = {
            name: score(scorer, said, heard)
            for name, scorer in found.items()
            if name not in missing
        }
        print(json.dumps(scores), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"check": check, "make": make, "score": score_all}[sys.argv[1]](*sys.argv[2:])
