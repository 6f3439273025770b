// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// udpHeaderSize is the run (8), the number (8) and the length (8) in front of
// each datagram's payload.
const udpHeaderSize = 24

const udpBuffer = 8 << 20 // bytes of datagrams that may wait for the receiver

// udp sends numbered datagrams and checks every byte of those that arrive.
func (e *exchange) udp(ctx context.Context) (TrafficResult, error) {
	var receiver, sender *net.UDPConn
	err := e.to.Do(func() (err error) {
		at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.destination, e.Port))
		err = listen(func() (err error) { receiver, err = net.ListenUDP("udp6", at); return err })
		if err != nil {
			return err
		}
		return enlarge(receiver)
	})
	if err != nil {
		return TrafficResult{}, err
	}
	defer receiver.Close()
	err = e.from.Do(func() (err error) {
		sender, err = net.DialUDP(
			"udp6",
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.source, 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.destination, e.Port)),
		)
		return err
	})
	if err != nil {
		return TrafficResult{}, err
	}
	defer sender.Close()

	run, counted := rand.Uint64(), newTally(e.Count)
	done := make(chan error, 1)
	go func() { done <- receiveUDP(receiver, run, e.Size, counted) }()
	start := time.Now()
	sent, err := pace(ctx, e.Count, e.Interval, func(i int) error {
		_, err := sender.Write(datagram(run, uint64(i), e.Size))
		if errors.Is(err, unix.ECONNREFUSED) { // about an earlier datagram, which is lost
			_, err = sender.Write(datagram(run, uint64(i), e.Size))
		}
		return err
	})
	if err != nil {
		receiver.Close()
		<-done
		return counted.result, err
	}
	if err := receiver.SetReadDeadline(time.Now().Add(lastReply)); err != nil {
		return counted.result, err
	}
	err = <-done
	counted.result.Sent, counted.result.Duration = sent, time.Since(start)
	return counted.result, err
}

// enlarge gives a socket a buffer for bursts, beyond the machine's default limit.
func enlarge(conn syscall.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer)
	})
	return errors.Join(err, set)
}

// receiveUDP reads until every datagram has arrived or the time is up.
func receiveUDP(conn *net.UDPConn, run uint64, size int, counted *tally) error {
	buffer := make([]byte, maxPayload+1)
	for !counted.complete() {
		n, err := conn.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n < udpHeaderSize || binary.BigEndian.Uint64(buffer) != run {
			continue // from another sender
		}
		number := binary.BigEndian.Uint64(buffer[8:])
		if !bytes.Equal(buffer[:n], datagram(run, number, size)) {
			return fmt.Errorf("datagram %d arrived changed", number)
		}
		if counted.countNumber(number) {
			counted.result.Bytes += int64(n)
		}
	}
	return nil
}

// datagram is the payload for a number: the same bytes at both ends.
func datagram(run, number uint64, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, run)
	binary.BigEndian.PutUint64(b[8:], number)
	binary.BigEndian.PutUint64(b[16:], uint64(size))
	for i := udpHeaderSize; i < size; i++ {
		b[i] = byte(i) ^ byte(number)
	}
	return b
}
