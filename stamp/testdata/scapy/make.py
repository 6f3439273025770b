# SPDX-License-Identifier: Apache-2.0
"""Writes packets.jsonl: test packets of STAMP as Scapy builds them, with their fields.

python3 -m venv /tmp/scapy && /tmp/scapy/bin/pip install scapy==2.8.0
/tmp/scapy/bin/python stamp/testdata/scapy/make.py > stamp/testdata/scapy/packets.jsonl
"""

import json
import random
from fractions import Fraction

from scapy.contrib.stamp import (
    ErrorEstimate,
    STAMPSessionReflectorTestUnauthenticated as Reflector,
    STAMPSessionSenderTestUnauthenticated as Sender,
    STAMPTestTLV as TLV,
)

r = random.Random(8762)


def estimate(ptp):
    return ErrorEstimate(S=r.getrandbits(1), Z=ptp, scale=r.getrandbits(6), multiplier=r.getrandbits(8))


def time(ptp):
    """A timestamp, and what Scapy takes for it: 64 bits, or seconds as a fraction."""
    t = r.getrandbits(64)
    return t, t if ptp else Fraction(t, 1 << 32)


def tlvs():
    for _ in range(r.choice([0, 0, 1, 2, 5])):
        value = r.randbytes(r.choice([0, 1, 4, 16, 80]))
        yield {"flags": r.getrandbits(8), "type": r.randint(1, 255), "value": value.hex()}


def put(packet, name, ptp):
    t, value = time(ptp)
    setattr(packet, name, value)
    return t


def make(kind):
    ptp = r.getrandbits(1)
    e, list_ = estimate(ptp), list(tlvs())
    packet = (Sender if kind == "sender" else Reflector)(seq=r.getrandbits(32), ssid=r.getrandbits(16), err_estimate=e)
    packet.tlv_objects = [
        TLV(flags=t["flags"], type=t["type"], len=len(t["value"]) // 2, value=bytes.fromhex(t["value"])) for t in list_
    ]
    out = {"kind": kind, "sequence": packet.seq, "ssid": packet.ssid, "error": bytes(e).hex(), "time": put(packet, "ts", ptp)}
    if kind == "reflector":
        out["received"] = put(packet, "ts_rx", ptp)
        other = r.getrandbits(1)
        packet.err_estimate_sender = estimate(other)
        packet.seq_sender, packet.ttl_sender = r.getrandbits(32), r.getrandbits(8)
        out["sender_time"] = put(packet, "ts_sender", other)
        out["sender_error"] = bytes(packet.err_estimate_sender).hex()
        out["sender_sequence"], out["sender_ttl"] = packet.seq_sender, packet.ttl_sender
    out["tlvs"], out["packet"] = list_, bytes(packet).hex()
    return out


for kind in ["sender", "reflector"]:
    for _ in range(40):
        print(json.dumps(make(kind), separators=(",", ":")))
