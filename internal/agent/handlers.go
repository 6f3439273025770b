// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

func unmarshalStrict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// route is one request of the API.
type route struct {
	pattern string
	handle  func(*Agent, http.ResponseWriter, *http.Request) error
}

// apiRoutes is the whole API; docs/reference/api.md has the same list, and a
// test compares.
var apiRoutes = []route{
	{"GET /v1/status", (*Agent).getStatus},
	{"GET /v1/warnings", (*Agent).getWarnings},
	{"GET /v1/config", (*Agent).getConfig},
	{"GET /v1/records", (*Agent).getRecords},
	{"GET /v1/namespaces", (*Agent).getNamespaces},
	{"POST /v1/namespaces", (*Agent).postNamespace},
	{"DELETE /v1/namespaces/{id}", (*Agent).deleteNamespace},
	{"PUT /v1/namespaces/{id}/schema", (*Agent).putSchema},
	{"PUT /v1/namespaces/{id}/export", (*Agent).putExport},
	{"GET /v1/schemas", (*Agent).getSchemas},
	{"POST /v1/schemas", (*Agent).postSchema},
	{"DELETE /v1/schemas/{id}", (*Agent).deleteSchema},
	{"GET /v1/encapsulations", (*Agent).getEncapsulations},
	{"POST /v1/encapsulations", (*Agent).postEncapsulation},
	{"PUT /v1/encapsulations/{name}", (*Agent).putEncapsulation},
	{"DELETE /v1/encapsulations/{name}", (*Agent).deleteEncapsulation},
	{"GET /v1/interfaces", (*Agent).getInterfaces},
	{"PATCH /v1/interfaces/{name}", (*Agent).patchInterface},
	{"GET /v1/decapsulations", (*Agent).getDecapsulations},
	{"POST /v1/decapsulations", (*Agent).postDecapsulation},
	{"DELETE /v1/decapsulations/{address}", (*Agent).deleteDecapsulation},
	{"POST /v1/reload", (*Agent).postReload},
	{"POST /v1/stop", (*Agent).postStop},
}

func (a *Agent) routes() http.Handler {
	mux := a.public()
	for _, r := range apiRoutes {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			if err := r.handle(a, w, req); err != nil {
				refuse(w, err)
			}
		})
	}
	return mux
}

// done answers a change that happened.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (a *Agent) getStatus(w http.ResponseWriter, _ *http.Request) error {
	s, err := a.status()
	if err == nil {
		answer(w, http.StatusOK, s)
	}
	return err
}

func (a *Agent) getWarnings(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, nonNil(a.diagnosis()))
	return nil
}

func (a *Agent) getConfig(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(a.state.Load().config.Marshal()) // whoever asked is gone: nobody to tell
	return nil
}

func (a *Agent) getNamespaces(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, nonNil(a.state.Load().config.Namespaces))
	return nil
}

func (a *Agent) getSchemas(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, a.state.Load().schemaList())
	return nil
}

func (a *Agent) getEncapsulations(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, nonNil(a.state.Load().config.Encapsulations))
	return nil
}

// nonNil makes JSON show an empty list rather than null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *Agent) postNamespace(w http.ResponseWriter, r *http.Request) error {
	var ns config.Namespace
	if err := decode(r, &ns); err != nil {
		return err
	}
	return done(w, a.edit(func(s *state) (*state, error) {
		c, err := s.config.AddNamespace(ns)
		if err != nil {
			return nil, err
		}
		return s.with(c), nil
	}))
}

func (a *Agent) deleteNamespace(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	return done(w, a.removeNamespace(ioam.NamespaceID(id)))
}

func (a *Agent) putSchema(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	var binding api.SchemaBinding
	if err := decode(r, &binding); err != nil {
		return err
	}
	return done(w, a.bindSchema(ioam.NamespaceID(id), binding.Schema))
}

func (a *Agent) putExport(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	var wanted api.NamespaceExport
	if err := decode(r, &wanted); err != nil {
		return err
	}
	return done(w, a.edit(func(s *state) (*state, error) {
		c, err := s.config.SetExport(ioam.NamespaceID(id), wanted.Export, config.Sample(wanted.Sample))
		if err != nil {
			return nil, err
		}
		return s.with(c), nil
	}))
}

func (a *Agent) postSchema(w http.ResponseWriter, r *http.Request) error {
	var schema api.Schema
	if err := decode(r, &schema); err != nil {
		return err
	}
	return done(w, a.addSchema(schema))
}

func (a *Agent) deleteSchema(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 24)
	if err != nil {
		return err
	}
	return done(w, a.removeSchema(ioam.SchemaID(id)))
}

func (a *Agent) postEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := decode(r, &e); err != nil {
		return err
	}
	return done(w, a.setEncapsulation(e, (*config.Config).AddEncapsulation))
}

func (a *Agent) putEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := decode(r, &e); err != nil {
		return err
	}
	if name := r.PathValue("name"); e.Name != name {
		return badRequest{fmt.Errorf("the encapsulation is called %q in the path and %q in the body", name, e.Name)}
	}
	existing, err := existingOnly(r)
	if err != nil {
		return err
	}
	return done(w, a.setEncapsulation(e, func(c *config.Config, e config.Encapsulation) (*config.Config, error) {
		if existing && !c.HasEncapsulation(e.Name) {
			return nil, notFound{fmt.Errorf("there is no encapsulation %q; list them with: waymark route show", e.Name)}
		}
		return c.ReplaceEncapsulation(e)
	}))
}

// existingOnly reports whether a request is to change what is there, and to add
// nothing.
func existingOnly(r *http.Request) (existing bool, err error) {
	for key, values := range r.URL.Query() {
		if key != "existing" || len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return false, badRequest{fmt.Errorf("%s=%s is not understood; only existing=true or existing=false may be here", key, strings.Join(values, ","))}
		}
		existing = values[0] == "true"
	}
	return existing, nil
}

func (a *Agent) deleteEncapsulation(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	return done(w, a.edit(func(s *state) (*state, error) {
		c, err := s.config.RemoveEncapsulation(name)
		if err != nil {
			return nil, err
		}
		return s.with(c), nil
	}))
}

func (a *Agent) postReload(w http.ResponseWriter, _ *http.Request) error { return done(w, a.Reload()) }

// postStop ends the agent. When the data plane is to go, it is gone when this
// answers.
func (a *Agent) postStop(w http.ResponseWriter, r *http.Request) error {
	var request api.Stop
	if err := decode(r, &request); err != nil {
		return err
	}
	select {
	case a.stop <- request.Remove:
	default:
		return refusef("the agent is ending already")
	}
	if !request.Remove {
		answer(w, http.StatusOK, api.Stopped{Warnings: []health.Warning{}})
		return nil
	}
	select {
	case r := <-a.removed:
		if r.err == nil {
			answer(w, http.StatusOK, api.Stopped{Warnings: nonNil(r.warnings)})
		}
		return r.err
	case <-a.closing:
		return refusef("the agent ended for another reason and left the data plane; remove it with 'waymark agent stop --remove'")
	}
}

// getRecords streams records as JSON lines until the observer has enough.
func (a *Agent) getRecords(w http.ResponseWriter, r *http.Request) error {
	filter, err := recordFilter(r)
	if err != nil {
		return err
	}
	if a.stream.Observers() >= maxObservers {
		return refusef("%d observe already, and no more may; end one of them, or let an exporter write a file for many readers", maxObservers)
	}
	o := a.stream.Observe(filter, observerRoom)
	a.askForRecords()
	defer a.askForRecords()
	defer o.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	for {
		if err := control.Flush(); err != nil {
			return nil // gone
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-a.closing:
			return nil
		case next := <-o.Records():
			if !writeRecords(w, o, next) {
				return nil
			}
		}
	}
}

// writeRecords writes a record and those that wait behind it, then how many
// were lost meanwhile.
func writeRecords(w io.Writer, o *sink.Observer, first record.Record) bool {
	write := func(r record.Record) bool {
		_, err := w.Write(record.AppendLine(nil, r))
		return err == nil
	}
	if !write(first) {
		return false
	}
	for range len(o.Records()) {
		if !write(<-o.Records()) {
			return false
		}
	}
	if n := o.TakeLost(); n > 0 {
		return write(&record.Lost{Count: n})
	}
	return true
}

func recordFilter(r *http.Request) (record.Filter, error) {
	var f record.Filter
	for key, values := range r.URL.Query() {
		if len(values) != 1 {
			return f, badRequest{fmt.Errorf("%s is given %d times", key, len(values))}
		}
		var err error
		switch value := values[0]; key {
		case "namespace":
			var id uint64
			if id, err = strconv.ParseUint(value, 0, 16); err == nil {
				ns := ioam.NamespaceID(id)
				f.Namespace = &ns
			}
		case "source":
			f.Source, err = netip.ParsePrefix(value)
		case "destination":
			f.Destination, err = netip.ParsePrefix(value)
		default:
			err = errors.New("unknown; filter by namespace, source or destination")
		}
		switch {
		case err == nil:
		case key == "namespace":
			return f, badRequest{fmt.Errorf("namespace: %q: want a number from 0 to 65535", values[0])}
		case key == "source" || key == "destination":
			return f, badRequest{fmt.Errorf("%s: %q: want an IPv6 prefix", key, values[0])}
		default:
			return f, badRequest{fmt.Errorf("%s: %w", key, err)}
		}
	}
	return f, nil
}

func pathNumber(r *http.Request, bits int) (uint64, error) {
	n, err := strconv.ParseUint(r.PathValue("id"), 0, bits)
	if err != nil {
		return 0, badRequest{fmt.Errorf("%q is no number of %d bits", r.PathValue("id"), bits)}
	}
	return n, nil
}

// status is everything worth knowing.
func (a *Agent) status() (api.Status, error) {
	s := a.state.Load()
	counters, err := a.datapath.Counters()
	if err != nil {
		return api.Status{}, fmt.Errorf("read the counters: %w", err)
	}
	node := s.resolved.Node
	out := api.Status{
		Version:    a.options.Version,
		Agent:      a.options.Place.ID,
		PID:        os.Getpid(),
		Started:    instant.Of(a.started),
		ConfigFile: a.options.ConfigFile,
		Loaded:     instant.Of(s.loaded),
		Modified:   s.modified,
		Node: api.Node{Name: a.options.NodeName, ID: uint32(node.ID), IDWide: uint64(node.IDWide),
			TimestampFormat: node.TimestampFormat.String(), Compatibility: node.Compatibility.String()},
		Interfaces:     a.interfaces(s, counters),
		Namespaces:     nonNil(s.config.Namespaces),
		Encapsulations: nonNil(s.config.Encapsulations),
		Decapsulations: []netip.Addr{},
		PathMTUs:       nonNil(a.paths.table.Paths()),
		TunnelErrors:   a.tunnelErrorCounts(),
		Warnings:       nonNil(a.warnings()),
		Metrics:        a.metricsServer.url(),
		Records: api.Records{Read: a.records.read.Load(), Malformed: a.records.malformed.Load(),
			Observers: a.stream.Observers(), Dropped: a.stream.Dropped(), Exporters: []api.Exporter{}, KernelEvents: a.kernelEventStatus(s)},
	}
	for _, d := range s.config.Decapsulations {
		out.Decapsulations = append(out.Decapsulations, d.TunnelDestination)
	}
	for _, e := range a.sinks.stats() {
		shown := api.Exporter{Name: e.name, Written: e.Written, Dropped: e.Dropped, Failed: e.Lost + e.Unencodable,
			Queued: e.Waiting(), Error: e.Error}
		if e.Network {
			shown.Connected, shown.Messages, shown.Octets, shown.Unsure = &e.Connected, e.Messages, e.Octets, e.Unsure
		}
		out.Records.Exporters = append(out.Records.Exporters, shown)
	}
	return out, nil
}
