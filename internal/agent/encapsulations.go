// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/waymark-net/waymark/internal/config"
)

func (a *Agent) getEncapsulations(w http.ResponseWriter, _ *http.Request) error {
	answer(w, http.StatusOK, nonNil(a.state.Load().config.Encapsulations))
	return nil
}

func (a *Agent) postEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := decode(r, &e); err != nil {
		return err
	}
	return a.setEncapsulation(w, e, (*config.Config).AddEncapsulation)
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
	return a.setEncapsulation(w, e, func(c *config.Config, e config.Encapsulation) (*config.Config, error) {
		if existing && !c.HasEncapsulation(e.Name) {
			return nil, notFound{fmt.Errorf("there is no encapsulation %q; list them with: waymark route show", e.Name)}
		}
		return c.ReplaceEncapsulation(e)
	})
}

// putSameEncapsulation replaces the rule that selects the same packets on the same
// interface. It finds the rule under the change lock, so that no other change
// intervenes.
func (a *Agent) putSameEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var e config.Encapsulation
	if err := decode(r, &e); err != nil {
		return err
	}
	existing, err := existingOnly(r)
	if err != nil {
		return err
	}
	if err := a.checkSource(e); err != nil {
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
		case existing:
			return nil, notFound{errors.New("no encapsulation selects the same packets on the same interface; list them with: waymark route show")}
		}
		return c.AddEncapsulation(e)
	})
	return a.changed(w, err, e.Name, ofEncapsulation(e))
}

// setEncapsulation adds or replaces a rule.
func (a *Agent) setEncapsulation(w http.ResponseWriter, e config.Encapsulation, set func(*config.Config, config.Encapsulation) (*config.Config, error)) error {
	if err := a.checkSource(e); err != nil {
		return err
	}
	err := a.editConfig(func(c *config.Config) (*config.Config, error) { return set(c, e) })
	return a.changed(w, err, e.Name, ofEncapsulation(e))
}

// existingOnly reports whether a request may only change an existing rule, not add one.
func existingOnly(r *http.Request) (existing bool, err error) {
	for key, values := range r.URL.Query() {
		if key != "existing" || len(values) != 1 || values[0] != "true" && values[0] != "false" {
			return false, badRequest{fmt.Errorf("%s=%s is not valid; use existing=true or existing=false", key, strings.Join(values, ","))}
		}
		existing = values[0] == "true"
	}
	return existing, nil
}

func (a *Agent) deleteEncapsulation(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	return done(w, a.editConfig(func(c *config.Config) (*config.Config, error) { return c.RemoveEncapsulation(name) }))
}

// deleteSelectedEncapsulation removes the one selected rule, found as by
// putSameEncapsulation.
func (a *Agent) deleteSelectedEncapsulation(w http.ResponseWriter, r *http.Request) error {
	var selection config.Selection
	if err := decode(r, &selection); err != nil {
		return err
	}
	if selection.IsEmpty() {
		return badRequest{errors.New("nothing to select by; give name, interface, match or insertion")}
	}
	var name string
	err := a.editConfig(func(c *config.Config) (_ *config.Config, err error) {
		switch name, err = c.Selected(selection); {
		case err != nil:
			return nil, err
		case name == "":
			return nil, notFound{errors.New("no such encapsulation; list them with: waymark route show")}
		}
		return c.RemoveEncapsulation(name)
	})
	return a.changed(w, err, name, nil)
}
