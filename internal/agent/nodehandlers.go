// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/http"
	"net/netip"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

func (a *Agent) getInterfaces(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, service.NonNil(a.state.Load().Config.Interfaces))
	return nil
}

func (a *Agent) patchInterface(w http.ResponseWriter, r *http.Request) error {
	var change api.InterfaceChange
	if err := service.Decode(r, &change); err != nil {
		return err
	}
	if change == (api.InterfaceChange{}) {
		return service.BadRequest(problem.New("nothing to set", "give role, boundary, or both"))
	}
	var roles *model.Role
	if change.Role != nil {
		roles = new(model.Role)
		for _, role := range *change.Role {
			*roles |= role
		}
	}
	name := r.PathValue("name")
	err := a.editConfig(func(c *config.Config) (*config.Config, error) { return c.SetInterface(name, roles, change.Boundary) })
	return a.changed(w, err, name, ofEnds)
}

func (a *Agent) getDecapsulations(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, service.NonNil(a.state.Load().Config.Decapsulations))
	return nil
}

func (a *Agent) postDecapsulation(w http.ResponseWriter, r *http.Request) error {
	var d config.Decapsulation
	if err := service.Decode(r, &d); err != nil {
		return err
	}
	err := a.editConfig(func(c *config.Config) (*config.Config, error) { return c.AddDecapsulation(d) })
	return a.changed(w, err, "", ofEnds)
}

func (a *Agent) deleteDecapsulation(w http.ResponseWriter, r *http.Request) error {
	destination, err := netip.ParseAddr(r.PathValue("address"))
	if err != nil {
		return service.BadRequest(fmt.Errorf("%q is not an address", r.PathValue("address")))
	}
	err = a.editConfig(func(c *config.Config) (*config.Config, error) { return c.RemoveDecapsulation(destination) })
	return a.changed(w, err, "", nil, health.RemovedDecapsulation(destination))
}

// editConfig changes the running configuration.
func (a *Agent) editConfig(change func(*config.Config) (*config.Config, error)) error {
	return a.edit(func(s *service.State) (*service.State, error) {
		c, err := change(s.Config)
		if err != nil {
			return nil, err
		}
		return s.With(c), nil
	})
}
