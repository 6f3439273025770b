# SPDX-License-Identifier: Apache-2.0
"""A sender or a reflector of STAMP whose packets Scapy writes and reads.

stamp_scapy.py send ADDRESS PORT FORMAT COUNT TLVS
stamp_scapy.py reflect ADDRESS PORT FORMAT COUNT

FORMAT is ntp or ptp. TLVS is a JSON list of objects with flags, type, length and
value. Both roles print each packet as Scapy reads it, a JSON object in a line: the
sender its own and the answer to it, the reflector those of the other.
"""

import json
import socket
import sys
import time
from fractions import Fraction

from scapy.contrib.stamp import (
    ErrorEstimate,
    STAMPSessionReflectorTestUnauthenticated as Reflector,
    STAMPSessionSenderTestUnauthenticated as Sender,
    STAMPTestTLV as TLV,
)
from scapy.layers.inet import UDP

NTP_EPOCH = 2208988800  # 1970 in seconds since 1900
PADDING = 1


def now(ptp):
    """The time as 64 bits of the format."""
    if ptp:
        seconds, fraction = divmod(time.clock_gettime_ns(time.CLOCK_TAI), 10**9)
    else:
        seconds, rest = divmod(time.time_ns(), 10**9)
        seconds, fraction = seconds + NTP_EPOCH, (rest << 32) // 10**9
    return seconds << 32 | fraction


def put(packet, name, stamp, ptp):
    """Sets a timestamp: Scapy takes 64 bits for PTP, and seconds for NTP."""
    setattr(packet, name, stamp if ptp else Fraction(stamp, 1 << 32))


def dissect(kind, octets):
    # Scapy 2.5.0 takes the length of the TLVs from the packet's parent, which it
    # does not set for what follows a UDP header.
    return kind(octets, _parent=UDP(len=8 + len(octets)))


def estimate(e):
    return {"synchronized": e.S, "format": e.Z, "scale": e.scale, "multiplier": e.multiplier}


def show(kind, octets):
    p = dissect(kind, octets)
    out = {
        "octets": octets.hex(),
        "again": bytes(p).hex(),
        "sequence": p.seq,
        "time": p.fields["ts"],
        "error": estimate(p.err_estimate),
        "ssid": p.ssid,
        "tlvs": [{"flags": int(t.flags), "type": t.type, "length": t.len, "value": t.value.hex()} for t in p.tlv_objects],
    }
    if kind is Sender:
        out["zero"] = p.mbz
    else:
        out["zero"] = p.mbz1 + p.mbz2
        out["received"] = p.fields["ts_rx"]
        out["sender_sequence"] = p.seq_sender
        out["sender_time"] = p.fields["ts_sender"]
        out["sender_error"] = estimate(p.err_estimate_sender)
        out["sender_ttl"] = p.ttl_sender
    print(json.dumps(out), flush=True)
    return p


def send(udp, to, ptp, count, tlvs):
    for n in range(count):
        # The number passes its largest value; the hop limit is another each time.
        p = Sender(seq=(0xFFFFFFFE + n) % 2**32, ssid=0xABCD)
        p.err_estimate = ErrorEstimate(S=n % 2, Z=ptp, scale=63 - n, multiplier=255 - n)
        p.tlv_objects = [TLV(flags=t["flags"], type=t["type"], len=t["length"], value=bytes.fromhex(t["value"])) for t in tlvs]
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255 - n)
        put(p, "ts", now(ptp), ptp)
        octets = bytes(p)
        udp.sendto(octets, to)
        answer = udp.recv(2048)
        show(Sender, octets)
        show(Reflector, answer)


def reflect(udp, address, ptp, count):
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 255)
    udp.bind(address)
    for _ in range(count):
        octets, ancillary, _, source = udp.recvmsg(2048, 64)
        received = now(ptp)
        p = show(Sender, octets)
        answer = Reflector(seq=p.seq, ssid=p.ssid, seq_sender=p.seq, ttl_sender=int.from_bytes(ancillary[0][2], sys.byteorder))
        answer.err_estimate = ErrorEstimate(S=1, Z=ptp, scale=12, multiplier=200)
        answer.err_estimate_sender = p.err_estimate
        put(answer, "ts_sender", p.fields["ts"], p.err_estimate.Z)
        # It knows padding only: other TLVs keep the U flag.
        answer.tlv_objects = [TLV(flags=0 if t.type == PADDING else 0x80, type=t.type, len=t.len, value=t.value) for t in p.tlv_objects]
        put(answer, "ts_rx", received, ptp)
        put(answer, "ts", now(ptp), ptp)
        udp.sendto(bytes(answer), source)


role, host, port, timestamps, number = sys.argv[1:6]
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
    s.settimeout(20)
    if role == "send":
        send(s, (host, int(port)), int(timestamps == "ptp"), int(number), json.loads(sys.argv[6]))
    else:
        reflect(s, (host, int(port)), int(timestamps == "ptp"), int(number))
