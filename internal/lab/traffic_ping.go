// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// Echo messages of ICMPv6 (RFC 4443 §4); the kernel fills in the checksum.
const (
	echoRequest    = 128
	echoReply      = 129
	echoHeaderSize = 8
)

// ping sends echo requests and counts the replies.
func (e *exchange) ping(ctx context.Context) (TrafficResult, error) {
	var conn *net.IPConn
	err := e.from.Do(func() (err error) {
		conn, err = net.ListenIP("ip6:ipv6-icmp", &net.IPAddr{IP: e.source.AsSlice()})
		return err
	})
	if err != nil {
		return TrafficResult{}, err
	}
	defer conn.Close()
	id, counted := uint16(rand.Uint32()), newTally(min(e.Count, 1<<16))
	var lock sync.Mutex
	sentAt := make([]time.Time, len(counted.seen))
	done := make(chan error, 1)
	go func() {
		done <- receiveEcho(conn, id, counted, func(n int) time.Duration {
			lock.Lock()
			defer lock.Unlock()
			return time.Since(sentAt[n])
		})
	}()
	start, to := time.Now(), &net.IPAddr{IP: e.destination.AsSlice()}
	sent, err := pace(ctx, len(counted.seen), e.Interval, func(i int) error {
		message := make([]byte, echoHeaderSize+e.Size)
		message[0] = echoRequest
		binary.BigEndian.PutUint16(message[4:], id)
		binary.BigEndian.PutUint16(message[6:], uint16(i))
		for j := echoHeaderSize; j < len(message); j++ {
			message[j] = byte(j)
		}
		lock.Lock()
		sentAt[i] = time.Now()
		lock.Unlock()
		_, err := conn.WriteToIP(message, to)
		return err
	})
	if err != nil {
		conn.Close()
		<-done
		return counted.result, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(lastReply)); err != nil {
		return counted.result, err
	}
	err = <-done
	counted.result.Sent, counted.result.Duration = sent, time.Since(start)
	return counted.result, err
}

// receiveEcho reads until every reply has arrived or the time is up.
func receiveEcho(conn *net.IPConn, id uint16, counted *tally, since func(n int) time.Duration) error {
	buffer := make([]byte, maxPayload+echoHeaderSize)
	for !counted.complete() {
		n, _, err := conn.ReadFromIP(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n < echoHeaderSize || buffer[0] != echoReply || binary.BigEndian.Uint16(buffer[4:]) != id {
			continue
		}
		number, before := binary.BigEndian.Uint16(buffer[6:]), counted.result.Received
		if !counted.countNumber(uint64(number)) {
			continue
		}
		if counted.result.Received > before {
			counted.result.RoundTrip = append(counted.result.RoundTrip, since(int(number)))
			counted.result.Bytes += int64(n - echoHeaderSize)
		}
	}
	return nil
}
