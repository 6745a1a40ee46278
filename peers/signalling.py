"""Requests of WHIP and WHEP, for the clients in Python."""

import urllib.error
import urllib.request

TIMEOUT_S = 10


class Refused(Exception):
    """The server's answer was no answer of WHIP or WHEP."""


def request(method, url, token, body=None):
    headers = {"Content-Type": "application/sdp"} if body else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    message = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(message, timeout=TIMEOUT_S) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise Refused(f"{method} {url}: {error.code} {text}") from error
