// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

const transferBlock = 256 << 10

// tcp sends random bytes and compares the checksums of both ends.
func (e *exchange) tcp(ctx context.Context) (TrafficResult, error) {
	at := netip.AddrPortFrom(e.destination, e.Port)
	var listener *net.TCPListener
	err := e.to.Do(func() error {
		return listen(func() (err error) {
			listener, err = net.ListenTCP("tcp6", net.TCPAddrFromAddrPort(at))
			return err
		})
	})
	if err != nil {
		return TrafficResult{}, err
	}
	defer listener.Close()
	deadline, _ := ctx.Deadline()
	if err := listener.SetDeadline(deadline); err != nil {
		return TrafficResult{}, err
	}

	type received struct {
		sum   string
		bytes int64
		err   error
	}
	done := make(chan received, 1)
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	go func() {
		sum, n, err := receiveTCP(ctx, listener, deadline)
		done <- received{sum, n, err}
	}()

	start := time.Now()
	sum, err := e.sendTCP(ctx, at, deadline)
	if err != nil {
		listener.Close()
	}
	r := <-done
	result := TrafficResult{Bytes: r.bytes, Duration: time.Since(start)}
	if err := errors.Join(err, r.err); err != nil {
		if cause := ctx.Err(); cause != nil {
			err = fmt.Errorf("%w after %d of %d bytes", cause, r.bytes, e.Bytes)
		}
		return result, err
	}
	if r.bytes != e.Bytes || r.sum != sum {
		return result, fmt.Errorf(
			"the transfer arrived changed: %d bytes with SHA-256 %s were sent, %d with %s arrived",
			e.Bytes,
			sum,
			r.bytes,
			r.sum,
		)
	}
	return result, nil
}

func (e *exchange) sendTCP(ctx context.Context, at netip.AddrPort, deadline time.Time) (string, error) {
	var conn *net.TCPConn
	err := e.from.Do(func() error {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(e.source, 0)), FallbackDelay: -1}
		dialer.SetMultipathTCP(false)
		c, err := dialer.DialContext(ctx, "tcp6", at.String())
		if err != nil {
			return err
		}
		conn = c.(*net.TCPConn)
		return conn.SetDeadline(deadline)
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	digest := sha256.New()
	block := make([]byte, transferBlock)
	seed := [32]byte{}
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	noise := rand.NewChaCha8(seed)
	for left := e.Bytes; left > 0; {
		b := block[:min(left, transferBlock)]
		if _, err := noise.Read(b); err != nil {
			return "", err
		}
		digest.Write(b)
		if _, err := conn.Write(b); err != nil {
			return "", err
		}
		left -= int64(len(b))
	}
	return sumOf(digest), conn.CloseWrite()
}

func receiveTCP(ctx context.Context, listener *net.TCPListener, deadline time.Time) (string, int64, error) {
	conn, err := listener.AcceptTCP()
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", 0, err
	}
	digest := sha256.New()
	n, err := io.CopyBuffer(digest, struct{ io.Reader }{conn}, make([]byte, transferBlock))
	return sumOf(digest), n, err
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
