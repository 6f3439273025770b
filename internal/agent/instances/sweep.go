// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
)

// Sweep removes the state of agents whose network namespaces are certainly gone. Their
// programs went with their interfaces, and no other namespace gets their names before
// the next boot. The agents' directories are below root.
func (p Pins) Sweep(root string, own api.Instance, log *slog.Logger) {
	entries, err := os.ReadDir(p.root)
	if err != nil {
		log.Debug("look for the state of earlier agents", "error", err)
		return
	}
	for _, entry := range entries {
		id := entry.Name()
		if !strings.HasPrefix(id, api.InstancePrefix) || id == own.ID {
			continue
		}
		path := filepath.Join(p.root, id)
		gone, err := datapath.NamespaceGone(path)
		if gone && err == nil {
			// The pins last: only they show that the rest may be removed.
			err = errors.Join(os.RemoveAll(filepath.Join(root, id)), os.RemoveAll(path))
		}
		switch {
		case err != nil:
			log.Warn("the state of an earlier agent could not be removed", "namespace", id, "error", err)
		case gone:
			log.Info("removed the state of a network namespace that no longer exists", "namespace", id)
		}
	}
}
