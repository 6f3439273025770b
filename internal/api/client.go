// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/ioam"
)

// ErrNoAgent is the error of any request when no agent listens.
var ErrNoAgent error = problem.New("no agent runs in this network namespace", "start one with 'waymark agent run --config FILE'")

// closedError is the error of a user who may not ask the agent, if there is one. It is
// an [fs.ErrPermission].
type closedError struct{ socket string }

func (e closedError) Error() string {
	return fmt.Sprintf("the agent's socket %s may not be opened", e.socket)
}

func (closedError) Unwrap() error { return fs.ErrPermission }

// maxRecordLine bounds one line of a stream of records; a record of 9 traces of 61
// nodes each is shorter.
const maxRecordLine = 4 << 20

// Client talks to one agent.
type Client struct {
	socket string
	http   *http.Client

	refuseInline bool // see RefusingInline
}

// NewClient makes a client of the agent that listens on a Unix socket.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socket)
		if errors.Is(err, syscall.EACCES) { // who may not change anything may still read
			if reading, failed := d.DialContext(ctx, "unix", filepath.Join(filepath.Dir(socket), readSocket)); failed == nil {
				return reading, nil
			}
		}
		return conn, err
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// do sends one request and decodes the body of the answer, if any, into out, unless out
// is nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	body, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(body).Decode(out); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the agent's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// change sends a change.
func (c *Client) change(ctx context.Context, method, path string, in any) (Changed, error) {
	var out Changed
	err := c.do(ctx, method, path, in, &out)
	return out, err
}

// open sends one request and returns the body of a successful answer.
func (c *Client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	resp, err := c.request(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// request sends one request and returns a successful answer.
func (c *Client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, ErrNoAgent
	case errors.Is(err, syscall.EACCES):
		return nil, problem.Wrap(
			closedError{c.socket},
			"run it as root, or as the agent's user; who may only read belongs to the group that node.read-group names",
		)
	case err != nil:
		return nil, fmt.Errorf("ask the agent at %s: %w", c.socket, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	answer := &Error{Status: resp.StatusCode}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(answer); err != nil || answer.Message == "" {
		answer.Message = fmt.Sprintf("the agent answered %s to %s %s", resp.Status, method, path)
		if resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotFound {
			answer.Message += "; it may be older than this program: restart the agent"
		}
	}
	return nil, answer
}

// Status asks for the agent's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.do(ctx, http.MethodGet, "/v1/status", nil, &s)
	return s, err
}

// Warnings asks for the health warnings.
func (c *Client) Warnings(ctx context.Context) ([]health.Warning, error) {
	var ws []health.Warning
	err := c.do(ctx, http.MethodGet, "/v1/warnings", nil, &ws)
	return ws, err
}

// Delays asks for the histograms of delays.
func (c *Client) Delays(ctx context.Context) (Delays, error) {
	var d Delays
	err := c.do(ctx, http.MethodGet, "/v1/delays", nil, &d)
	return d, err
}

// Config asks for the running configuration, as YAML.
func (c *Client) Config(ctx context.Context) ([]byte, error) {
	body, err := c.open(ctx, http.MethodGet, "/v1/config", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Metrics asks for the metrics, in Prometheus' text format.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	body, err := c.open(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Reload makes the agent load its file again.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	var out Reloaded
	err := c.do(ctx, http.MethodPost, "/v1/reload", nil, &out)
	return out, err
}

// Stop makes the agent end; the answer comes before it has ended.
func (c *Client) Stop(ctx context.Context, s Stop) (Stopped, error) {
	var answer Stopped
	err := c.do(ctx, http.MethodPost, "/v1/stop", s, &answer)
	return answer, err
}

// Namespaces lists the namespaces.
func (c *Client) Namespaces(ctx context.Context) ([]config.Namespace, error) {
	var ns []config.Namespace
	err := c.do(ctx, http.MethodGet, "/v1/namespaces", nil, &ns)
	return ns, err
}

// AddNamespace adds a namespace. A warning says if not all that it exports becomes postcards, or none does.
func (c *Client) AddNamespace(ctx context.Context, ns config.Namespace) (Changed, error) {
	return c.change(ctx, http.MethodPost, "/v1/namespaces", ns)
}

// RemoveNamespace removes a namespace. The warnings name encapsulations that go on to insert it.
func (c *Client) RemoveNamespace(ctx context.Context, id ioam.NamespaceID) (Changed, error) {
	return c.change(ctx, http.MethodDelete, fmt.Sprintf("/v1/namespaces/%d", id), nil)
}

// SetSchema binds a schema to a namespace; nil binds none.
func (c *Client) SetSchema(ctx context.Context, id ioam.NamespaceID, schema *ioam.SchemaID) error {
	return c.do(ctx, http.MethodPut, "/v1/namespaces/"+strconv.Itoa(int(id))+"/schema", SchemaBinding{schema}, nil)
}

// SetNamespace changes what the node does with the options of a namespace.
func (c *Client) SetNamespace(ctx context.Context, id ioam.NamespaceID, change config.NamespaceChange) error {
	return c.do(ctx, http.MethodPatch, "/v1/namespaces/"+strconv.Itoa(int(id)), change, nil)
}

// SetExport sets what the node does with the Direct Exports of a namespace. Warnings are as for AddNamespace.
func (c *Client) SetExport(ctx context.Context, id ioam.NamespaceID, export NamespaceExport) (Changed, error) {
	return c.change(ctx, http.MethodPut, "/v1/namespaces/"+strconv.Itoa(int(id))+"/export", export)
}

// Schemas lists the schemas.
func (c *Client) Schemas(ctx context.Context) ([]Schema, error) {
	var ss []Schema
	err := c.do(ctx, http.MethodGet, "/v1/schemas", nil, &ss)
	return ss, err
}

// AddSchema adds a schema.
func (c *Client) AddSchema(ctx context.Context, s Schema) error {
	return c.do(ctx, http.MethodPost, "/v1/schemas", s, nil)
}

// RemoveSchema removes a schema, also from the namespaces that use it.
func (c *Client) RemoveSchema(ctx context.Context, id ioam.SchemaID) error {
	return c.do(ctx, http.MethodDelete, "/v1/schemas/"+strconv.FormatUint(uint64(id), 10), nil, nil)
}

// Encapsulations lists the encapsulation rules, in their order.
func (c *Client) Encapsulations(ctx context.Context) ([]config.Encapsulation, error) {
	var es []config.Encapsulation
	err := c.do(ctx, http.MethodGet, "/v1/encapsulations", nil, &es)
	return es, err
}

// AddEncapsulation adds a rule after the others. For a tunnel source of "::"
// the agent takes the address from which the kernel would send to the
// destination.
func (c *Client) AddEncapsulation(ctx context.Context, e config.Encapsulation) (Changed, error) {
	return c.change(ctx, http.MethodPost, "/v1/encapsulations"+c.ruleQuery(false), e)
}

// ReplaceEncapsulation replaces the rule with the same name, or adds it after the
// others. With existing, it never adds: the error is then an [Error] of status 404.
func (c *Client) ReplaceEncapsulation(ctx context.Context, e config.Encapsulation, existing bool) (Changed, error) {
	return c.change(ctx, http.MethodPut, "/v1/encapsulations/"+url.PathEscape(e.Name)+c.ruleQuery(existing), e)
}

// ReplaceSameEncapsulation replaces the rule that selects the same packets on the same
// interface, and keeps that rule's name. Without such a rule, it acts like
// ReplaceEncapsulation. If several fit, the error is an [Error] of status 409 that
// lists them.
func (c *Client) ReplaceSameEncapsulation(ctx context.Context, e config.Encapsulation, existing bool) (Changed, error) {
	return c.change(ctx, http.MethodPut, "/v1/encapsulations"+c.ruleQuery(existing), e)
}

// RefusingInline returns a client whose rules of mode inline are refused on a node that forwards packets
// of others, which RFC 8200 section 4 forbids, instead of being warned of.
func (c *Client) RefusingInline() *Client {
	careful := *c
	careful.refuseInline = true
	return &careful
}

func (c *Client) ruleQuery(existing bool) string {
	q := url.Values{}
	if existing {
		q.Set("existing", "true")
	}
	if c.refuseInline {
		q.Set("inline", "refuse")
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// RemoveEncapsulation removes a rule by name.
func (c *Client) RemoveEncapsulation(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/encapsulations/"+url.PathEscape(name), nil, nil)
}

// RemoveSelectedEncapsulation removes the one rule that s selects. If it selects none,
// the error is an [Error] of status 404; if several, one of status 409 that lists them.
func (c *Client) RemoveSelectedEncapsulation(ctx context.Context, s config.Selection) (Changed, error) {
	return c.change(ctx, http.MethodDelete, "/v1/encapsulations", s)
}

// Interfaces lists the interfaces as they are configured now.
func (c *Client) Interfaces(ctx context.Context) ([]config.Interface, error) {
	var list []config.Interface
	err := c.do(ctx, http.MethodGet, "/v1/interfaces", nil, &list)
	return list, err
}

// SetInterface changes an interface.
func (c *Client) SetInterface(ctx context.Context, name string, change InterfaceChange) (Changed, error) {
	return c.change(ctx, http.MethodPatch, "/v1/interfaces/"+url.PathEscape(name), change)
}

// Decapsulations lists the tunnels that end at the node.
func (c *Client) Decapsulations(ctx context.Context) ([]config.Decapsulation, error) {
	var list []config.Decapsulation
	err := c.do(ctx, http.MethodGet, "/v1/decapsulations", nil, &list)
	return list, err
}

// AddDecapsulation adds a tunnel that ends at the node.
func (c *Client) AddDecapsulation(ctx context.Context, d config.Decapsulation) (Changed, error) {
	return c.change(ctx, http.MethodPost, "/v1/decapsulations", d)
}

// RemoveDecapsulation removes a tunnel that ends at the node.
func (c *Client) RemoveDecapsulation(ctx context.Context, destination netip.Addr) (Changed, error) {
	return c.change(ctx, http.MethodDelete, "/v1/decapsulations/"+url.PathEscape(destination.String()), nil)
}

// MeasuredFlows lists the measured flows.
func (c *Client) MeasuredFlows(ctx context.Context) ([]MeasuredFlow, error) {
	var list []MeasuredFlow
	err := c.do(ctx, http.MethodGet, "/v1/flows", nil, &list)
	return list, err
}

// AddFlow adds a measured flow.
func (c *Client) AddFlow(ctx context.Context, f config.Flow) error {
	return c.do(ctx, http.MethodPost, "/v1/flows", f, nil)
}

// RemoveFlow ends the measurement of a flow.
func (c *Client) RemoveFlow(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/flows/"+url.PathEscape(name), nil, nil)
}

// Loss lists the records of loss and delay of the last block of each measured flow.
func (c *Client) Loss(ctx context.Context, f RecordFilter) ([]json.RawMessage, error) {
	var list []json.RawMessage
	err := c.do(ctx, http.MethodGet, "/v1/loss?"+f.Query().Encode(), nil, &list)
	return list, err
}

// CompleteSince is the header of a history that does not reach back as far as was asked: the
// time after which it is complete.
const CompleteSince = "Waymark-Complete-Since"

// LossHistory calls fn for the records of loss and delay that a filter selects, in the blocks of the last
// time. Its flow is a name. incomplete is called before, with the time after which there
// are all, if that is later.
func (c *Client) LossHistory(
	ctx context.Context,
	last time.Duration,
	f RecordFilter,
	incomplete func(since string),
	fn func(line []byte) error,
) error {
	q := f.Query()
	q.Set("last", last.String())
	resp, err := c.request(ctx, http.MethodGet, "/v1/loss/history?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if since := resp.Header.Get(CompleteSince); since != "" {
		incomplete(since)
	}
	return eachLine(ctx, resp.Body, fn)
}

// RecordFilter selects records; the zero value selects all.
type RecordFilter = recordfilter.Filter

// Observe calls fn for every line of the stream of records until the context
// ends or the agent does. ready, when not nil, is called once the agent has
// begun to observe.
func (c *Client) Observe(ctx context.Context, f RecordFilter, ready func(), fn func(line []byte) error) error {
	return c.records(ctx, f.Query(), ready, fn)
}

// Monitor is Observe of traces alone, each as a line of iproute2's "ip ioam monitor".
func (c *Client) Monitor(ctx context.Context, fn func(line []byte) error) error {
	return c.records(ctx, url.Values{"form": {"monitor"}}, nil, fn)
}

func (c *Client) records(ctx context.Context, q url.Values, ready func(), fn func(line []byte) error) error {
	path := "/v1/records"
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	body, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if ready != nil {
		ready()
	}
	return eachLine(ctx, body, fn)
}

// eachLine calls fn for every line of an answer.
func eachLine(ctx context.Context, body io.Reader, fn func(line []byte) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxRecordLine)
	for lines.Scan() {
		if err := fn(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the agent ended: %w", err)
	}
	return nil
}
