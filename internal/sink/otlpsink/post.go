// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waymark-net/waymark/internal/sink"
)

const (
	// mostWait is how long one request may take.
	mostWait = 10 * time.Second
	// tries is how often a request is sent that the endpoint could not take for now.
	tries = 3
	// pause is the wait before the second try, doubled for the third; mostPause is the longest that
	// an endpoint may ask for.
	pause     = time.Second
	mostPause = 5 * time.Second
	// moment is what a sink that ends gives its last requests.
	moment = time.Second
	// mostAnswer is how much of an answer is read, and mostSaid how much of it is shown.
	mostAnswer = 1 << 16
	mostSaid   = 200
)

// poster sends requests to an endpoint.
type poster struct {
	base     *url.URL
	file     string // of headers; "": none
	gzip     bool
	client   *http.Client
	onResult func(octets int, reached bool, err error)
	ctx      context.Context // of requests with retries
	cancel   context.CancelFunc

	mu       sync.Mutex
	peers    sink.Peers
	releases []func()
}

func newPoster(c Config, peers sink.Peers, onResult func(int, bool, error)) *poster {
	p := &poster{base: c.Endpoint, file: c.Headers, gzip: c.Gzip, onResult: onResult, peers: peers}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	dialer := &net.Dialer{Timeout: mostWait, ControlContext: p.sparePeer}
	p.client = &http.Client{
		Timeout: mostWait,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, MaxIdleConnsPerHost: 2, MaxConnsPerHost: 4, IdleConnTimeout: time.Minute,
			ResponseHeaderTimeout: mostWait,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// mostSpared bounds the addresses of the endpoint that are kept out of encapsulations at once.
const mostSpared = 16

// sparePeer keeps packets to the endpoint out of this node's encapsulations, before the first one
// (RFC 9326 §3.1.2).
func (p *poster) sparePeer(ctx context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || p.peers == nil {
		return err
	}
	_, release, err := p.peers.Spare(ctx, network, p.base.Hostname(), to)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releases = append(p.releases, release)
	if len(p.releases) > mostSpared { // of earlier connections
		p.releases[0]()
		p.releases = p.releases[1:]
	}
	return nil
}

// end lets requests wait no longer than a moment from now.
func (p *poster) end() { time.AfterFunc(moment, p.cancel) }

func (p *poster) close() {
	p.cancel()
	p.client.CloseIdleConnections()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, release := range p.releases {
		release()
	}
	p.releases = nil
}

// later is an error of an endpoint that could not take a request for now.
type later struct {
	error
	after time.Duration // that it asks for
}

func (l later) Unwrap() error { return l.error }

// postWithRetries sends a request, again after a while if the endpoint could not take it for now.
func (p *poster) postWithRetries(signal string, request message) (rejected int, err error) {
	wait := pause
	for try := 1; ; try++ {
		rejected, err = p.post(p.ctx, signal, request)
		var again later
		if !errors.As(err, &again) || try == tries {
			return rejected, err
		}
		select {
		case <-p.ctx.Done():
			return 0, err
		case <-time.After(min(max(wait, again.after), mostPause)):
		}
		wait *= 2
	}
}

// post sends a request, and returns how many of its parts were rejected.
func (p *poster) post(ctx context.Context, signal string, request message) (rejected int, err error) {
	body := []byte(request)
	reached := false // the endpoint, which may refuse the request
	defer func() { p.onResult(len(body), reached, err) }()
	headers := make(http.Header)
	if p.file != "" {
		if headers, err = readHeaders(p.file); err != nil {
			return 0, err // without them, the endpoint would take the request for another's
		}
	}
	headers.Set("Content-Type", "application/x-protobuf")
	if p.gzip {
		if body, err = compressed(body); err != nil {
			return 0, err
		}
		headers.Set("Content-Encoding", "gzip")
	}
	to := p.base.JoinPath("v1", signal)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header = headers
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, later{error: err}
	}
	defer answer.Body.Close()
	// A gateway that gives one of these answers did not reach it.
	reached = answer.StatusCode != http.StatusBadGateway && answer.StatusCode != http.StatusGatewayTimeout
	said, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch {
	case answer.StatusCode/100 == 2 && err == nil:
		return partly(said)
	case err != nil:
		return 0, later{error: err}
	}
	err = fmt.Errorf("%s answered %d %s%s", to.Host, answer.StatusCode, http.StatusText(answer.StatusCode), printable(said))
	switch answer.StatusCode { // OTLP 1.9, "Retryable Response Codes"
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return 0, later{err, time.Duration(min(max(seconds, 0), 3600)) * time.Second}
	}
	return 0, err
}

// partly reads an answer's partial_success: how many spans or records were rejected, and why.
func partly(body []byte) (rejected int, err error) {
	inner := bytesField(body, 1)
	if inner == nil {
		return 0, nil
	}
	for b := inner; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0, nil
		}
		b = b[n:]
		if number == 1 && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			rejected = int(min(v, 1<<30))
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return 0, nil
		}
		b = b[n:]
	}
	if rejected > 0 {
		err = fmt.Errorf("the endpoint rejected %d of them%s", rejected, printable(bytesField(inner, 2)))
	}
	return rejected, err
}

// bytesField is the first field of a number and of the type bytes.
func bytesField(b []byte, wanted protowire.Number) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == wanted && kind == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			return v
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// compressed is a request in gzip.
func compressed(request []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(request)
	err = errors.Join(err, w.Close()) // which writes the rest
	return out.Bytes(), err
}

// printable is what an endpoint says, without what could control a terminal.
func printable(body []byte) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(body[:min(len(body), mostSaid)]))
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + text
}
