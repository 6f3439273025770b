// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/http"
)

type memberKey struct{}

// ForMember is the context of what a member of node.read-group asks, who is not root.
func ForMember(ctx context.Context) context.Context { return context.WithValue(ctx, memberKey{}, true) }

// Places is how many of a bounded number of places may be taken when a request gets one: members of node.read-group
// leave some to root. maximum says which bound that is.
func Places(r *http.Request, most int) (places int, maximum string) {
	if r.Context().Value(memberKey{}) == nil {
		return most, "the maximum"
	}
	return most - max(1, most/4), "the maximum for members of node.read-group"
}
