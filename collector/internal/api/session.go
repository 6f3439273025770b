// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/query"
)

// Caller says who asks.
type Caller struct {
	User  string `json:"user,omitempty"`
	Role  string `json:"role"`
	Part  bool   `json:"part"`
	Login bool   `json:"login"`
}

// sessionRoute answers who asks, for the console.
var sessionRoute = route{
	path: "/v1/session", name: "session", summary: "Who asks: name and role", answer: Caller{},
	serve: func(*values) question {
		return func(ctx context.Context, _ *query.Queries) (any, error) {
			who := access.Of(ctx)
			s := &Caller{User: who.User, Role: "viewer", Part: who.Role.Scope != nil, Login: who.LoggedIn()}
			if who.Role.Admin || who.User == "" { // without users, everybody may see everything
				s.Role = "admin"
			}
			return s, nil
		}
	},
}
