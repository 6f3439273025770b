// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/ioam"
)

func (a *Agent) serveAPI() http.Handler {
	mux := a.public()
	for _, r := range a.api() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			if err := r.handle(w, req); err != nil {
				service.Refuse(w, err)
			}
		})
	}
	return mux
}

func (a *Agent) getStatus(w http.ResponseWriter, _ *http.Request) error {
	s, err := a.status()
	if err == nil {
		service.Answer(w, http.StatusOK, s)
	}
	return err
}

func (a *Agent) getWarnings(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, service.NonNil(a.diagnosis()))
	return nil
}

func (a *Agent) getConfig(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(a.state.Load().Config.Marshal()) // fails only when the client has gone
	return nil
}

func (a *Agent) getNamespaces(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, service.NonNil(a.state.Load().Config.Namespaces))
	return nil
}

func (a *Agent) getSchemas(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, schemaList(a.state.Load()))
	return nil
}

func (a *Agent) postNamespace(w http.ResponseWriter, r *http.Request) error {
	var ns config.Namespace
	if err := service.Decode(r, &ns); err != nil {
		return err
	}
	err := a.editConfig(func(c *config.Config) (*config.Config, error) { return c.AddNamespace(ns) })
	return a.exporting(w, err, ns.Export)
}

func (a *Agent) deleteNamespace(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	namespace := ioam.NamespaceID(id)
	if err := a.removeNamespace(namespace); err != nil {
		return err
	}
	if users := a.state.Load().Config.Users(namespace); len(users) > 0 {
		unfilled := func(w health.Warning) bool {
			return slices.ContainsFunc(users, func(name string) bool { return w.Code == health.NamespaceUnfilled && health.IsUnfilled(w, name) })
		}
		return a.changed(w, nil, "", unfilled)
	}
	return service.Done(w, nil)
}

func (a *Agent) patchNamespace(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	var change config.NamespaceChange
	if err := service.Decode(r, &change); err != nil {
		return err
	}
	if change == (config.NamespaceChange{}) {
		return service.BadRequest(problem.New("nothing to set", fmt.Sprintf("give %s, or key_file or drop_rejected in pot", switches(change))))
	}
	return service.Done(w, a.editConfig(func(c *config.Config) (*config.Config, error) {
		return c.SetNamespace(ioam.NamespaceID(id), change)
	}))
}

// switches are the keys of a change that are on or off, in a sentence.
func switches(change config.NamespaceChange) string {
	var list []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(change)) {
		if f.Type == reflect.TypeFor[*bool]() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			list = append(list, key)
		}
	}
	return strings.Join(list, ", ")
}

func (a *Agent) putSchema(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	var binding api.SchemaBinding
	if err := service.Decode(r, &binding); err != nil {
		return err
	}
	return service.Done(w, a.bindSchema(ioam.NamespaceID(id), binding.Schema))
}

func (a *Agent) putExport(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 16)
	if err != nil {
		return err
	}
	var wanted api.NamespaceExport
	if err := service.Decode(r, &wanted); err != nil {
		return err
	}
	err = a.editConfig(func(c *config.Config) (*config.Config, error) {
		return c.SetExport(ioam.NamespaceID(id), wanted.Export, config.Sample(wanted.Sample))
	})
	return a.exporting(w, err, wanted.Export)
}

func (a *Agent) postSchema(w http.ResponseWriter, r *http.Request) error {
	var schema api.Schema
	if err := service.Decode(r, &schema); err != nil {
		return err
	}
	return service.Done(w, a.addSchema(schema))
}

func (a *Agent) deleteSchema(w http.ResponseWriter, r *http.Request) error {
	id, err := pathNumber(r, 24)
	if err != nil {
		return err
	}
	return service.Done(w, a.removeSchema(ioam.SchemaID(id)))
}

func (a *Agent) postReload(w http.ResponseWriter, _ *http.Request) error {
	done, err := a.reload()
	if err == nil {
		service.Answer(w, http.StatusOK, done)
	}
	return err
}

// postStop ends the agent. If the data plane is to be removed, it answers after the
// removal.
func (a *Agent) postStop(w http.ResponseWriter, r *http.Request) error {
	var request api.Stop
	if err := service.Decode(r, &request); err != nil {
		return err
	}
	select {
	case a.stop <- request.Remove:
	default:
		return service.Refused(errors.New("the agent is already stopping"))
	}
	if !request.Remove {
		service.Answer(w, http.StatusOK, api.Stopped{Warnings: []health.Warning{}})
		return nil
	}
	answer := func(r instances.Removal) error {
		if r.Err == nil {
			service.Answer(w, http.StatusOK, api.Stopped{Warnings: service.NonNil(r.Warnings)})
		}
		return r.Err
	}
	select {
	case r := <-a.removed:
		return answer(r)
	case <-a.closing:
		select {
		case r := <-a.removed: // before: both may have happened by the time that this looks
			return answer(r)
		default:
		}
		return service.Refused(problem.New(
			"the agent stopped for another reason and left the data plane",
			"remove it with 'waymark agent stop --remove'",
		))
	}
}

func pathNumber(r *http.Request, bits int) (uint64, error) {
	n, err := strconv.ParseUint(r.PathValue("id"), 0, bits)
	if err != nil {
		return 0, service.BadRequest(fmt.Errorf("%q is not a number of %d bits", r.PathValue("id"), bits))
	}
	return n, nil
}
