// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
)

// sweep removes what agents have left of network namespaces that are gone for
// certain. Their programs went with their interfaces, and no other namespace
// gets their names before the next boot.
func sweep(root, pins string, own api.Place, log *slog.Logger) {
	entries, err := os.ReadDir(pins)
	if err != nil {
		log.Debug("look for what agents have left", "error", err)
		return
	}
	for _, entry := range entries {
		id := entry.Name()
		if !strings.HasPrefix(id, api.PlacePrefix) || id == own.ID {
			continue
		}
		path := filepath.Join(pins, id)
		gone, err := datapath.NamespaceGone(path)
		if gone && err == nil {
			// The pins last: they are what tells that the rest may go.
			err = errors.Join(os.RemoveAll(filepath.Join(root, id)), os.RemoveAll(path))
		}
		switch {
		case err != nil:
			log.Warn("what an agent has left is not removed", "namespace", id, "error", err)
		case gone:
			log.Info("removed what an agent has left of a network namespace that is gone", "namespace", id)
		}
	}
}
