// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/api"
)

// named returns the names of the running agent's entries; none without an agent.
func named[T any](
	opts *options,
	cmd *cobra.Command,
	list func(*api.Client, context.Context) ([]T, error),
	name func(T) string,
) (names []cobra.Completion) {
	c, err := opts.client()
	if err != nil {
		return nil
	}
	all, _ := list(c, cmd.Context())
	for _, one := range all {
		names = append(names, name(one))
	}
	return names
}
