// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
)

func (a *Agent) getEncapsulations(w http.ResponseWriter, _ *http.Request) error {
	service.Answer(w, http.StatusOK, service.NonNil(a.state.Load().Config.Encapsulations))
	return nil
}

func (a *Agent) postEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := service.Decode(r, &e); err != nil {
		return err
	}
	q, err := readRuleQuery(r)
	if err != nil {
		return err
	}
	return a.setEncapsulation(w, q, e, (*config.Config).AddEncapsulation)
}

func (a *Agent) putEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := service.Decode(r, &e); err != nil {
		return err
	}
	if name := r.PathValue("name"); e.Name != name {
		return service.BadRequest(fmt.Errorf("the encapsulation is called %q in the path and %q in the body", name, e.Name))
	}
	q, err := readRuleQuery(r)
	if err != nil {
		return err
	}
	return a.setEncapsulation(w, q, e, func(c *config.Config, e config.Encapsulation) (*config.Config, error) {
		if q.existing && !c.HasEncapsulation(e.Name) {
			return nil, service.NotFound(problem.New(fmt.Sprintf("there is no encapsulation %q", e.Name), "list them with: waymark route show"))
		}
		return c.ReplaceEncapsulation(e)
	})
}

// putSameEncapsulation replaces the rule that selects the same packets on the same
// interface. It finds the rule under the change lock, so that no other change
// intervenes.
func (a *Agent) putSameEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := service.Decode(r, &e); err != nil {
		return err
	}
	q, err := readRuleQuery(r)
	if err != nil {
		return err
	}
	if err := a.checkRule(q, e); err != nil {
		return err
	}
	err = a.editConfig(func(c *config.Config) (*config.Config, error) {
		name, err := c.Same(e)
		switch {
		case err != nil:
			return nil, err
		case name != "":
			e.Name = name
			return c.ReplaceEncapsulation(e)
		case q.existing:
			return nil, service.NotFound(
				problem.New("no encapsulation selects the same packets on the same interface", "list them with: waymark route show"),
			)
		}
		return c.AddEncapsulation(e)
	})
	return a.changed(w, err, e.Name, ofEncapsulation(e))
}

// setEncapsulation adds or replaces a rule.
func (a *Agent) setEncapsulation(
	w http.ResponseWriter,
	q ruleQuery,
	e config.Encapsulation,
	set func(*config.Config, config.Encapsulation) (*config.Config, error),
) error {
	if err := a.checkRule(q, e); err != nil {
		return err
	}
	err := a.editConfig(func(c *config.Config) (*config.Config, error) { return set(c, e) })
	return a.changed(w, err, e.Name, ofEncapsulation(e))
}

// ruleQuery is how a rule may be put in force.
type ruleQuery struct {
	existing     bool // only in place of another one
	refuseInline bool // not with mode inline on a node that forwards
}

func readRuleQuery(r *http.Request) (q ruleQuery, err error) {
	for key, values := range r.URL.Query() {
		switch value := strings.Join(values, ","); {
		case key == "existing" && (value == "true" || value == "false") && r.Method == http.MethodPut:
			q.existing = value == "true"
		case key == "inline" && (value == "refuse" || value == "warn"):
			q.refuseInline = value == "refuse"
		default:
			return q, service.BadRequest(
				problem.New(
					fmt.Sprintf("%s=%s is not valid", key, value),
					"use existing=true or existing=false with PUT, or inline=refuse or inline=warn",
				),
			)
		}
	}
	return q, nil
}

// checkRule refuses a rule that only this host shows to be wrong.
func (a *Agent) checkRule(q ruleQuery, e config.Encapsulation) error {
	if q.refuseInline && e.Mode == model.ModeInline && a.system.Forwards() {
		if s := e.Match.Source; !s.IsSingleIP() || !a.system.OwnAddresses()(s.Addr()) {
			return service.Refused(health.InlineRefused(a.tunnelEnd(e.Interface)))
		}
	}
	return a.checkSource(e)
}

// tunnelEnd is where another rule's tunnel ends, best one of the same interface; invalid if there is
// none.
func (a *Agent) tunnelEnd(iface string) (end netip.Addr) {
	for _, e := range a.state.Load().Config.Encapsulations {
		if e.Tunnel != nil && (!end.IsValid() || e.Interface == iface) {
			end = e.Tunnel.Destination
		}
	}
	return end
}

func (a *Agent) deleteEncapsulation(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	return service.Done(w, a.editConfig(func(c *config.Config) (*config.Config, error) { return c.RemoveEncapsulation(name) }))
}

// deleteSelectedEncapsulation removes the one selected rule, found as by
// putSameEncapsulation.
func (a *Agent) deleteSelectedEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var selection config.Selection
	if err := service.Decode(r, &selection); err != nil {
		return err
	}
	if selection.IsEmpty() {
		return service.BadRequest(problem.New("nothing to select by", "give name, interface, match or insertion"))
	}
	var name string
	err := a.editConfig(func(c *config.Config) (_ *config.Config, err error) {
		switch name, err = c.Selected(selection); {
		case err != nil:
			return nil, err
		case name == "":
			return nil, service.NotFound(problem.New("no such encapsulation", "list them with: waymark route show"))
		}
		return c.RemoveEncapsulation(name)
	})
	return a.changed(w, err, name, nil)
}

// checkSource refuses a new rule whose tunnel would have no source.
func (a *Agent) checkSource(e config.Encapsulation) error {
	if e.Tunnel == nil || e.Tunnel.Source.IsValid() || e.Mode == model.ModeInline {
		return nil
	}
	if _, err := config.SourceOf(a.system, e.Tunnel.Destination); err != nil {
		return problem.Wrap(fmt.Errorf("tunnel source: %w", err), "set one of this node's addresses with tunsrc")
	}
	return nil
}
