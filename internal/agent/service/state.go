// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/replacefile"
	"github.com/waymark-net/waymark/ioam"
)

// State is the running configuration. It is replaced, never changed.
type State struct {
	Config   *config.Config
	Schemas  map[ioam.SchemaID]string // that the API added, bound or not
	Resolved config.Resolved
	Names    *nodenames.Names // of all nodes that are known here
	fileSum  string           // of the file when it was loaded
	fileSize int
	KeySum   string // of the files with keys of messages, then
	Loaded   time.Time
	Modified bool // by the API since then
}

// Current reads the running configuration; nil before the first one.
type Current interface{ Load() *State }

// With is a copy with another configuration, changed by the API.
func (s *State) With(c *config.Config) *State {
	next := *s
	next.Config, next.Modified = c, true
	next.Schemas = maps.Clone(s.Schemas)
	return &next
}

// Equals reports whether two states have the same configuration and schemas.
func (s *State) Equals(other *State) bool {
	return s.Config.Equal(other.Config) && maps.Equal(s.Schemas, other.Schemas)
}

// LoadFile reads and checks the configuration file, also against the host.
func LoadFile(path string, h config.Host) (*State, error) {
	data, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	c, err := config.ParseFor(h, path, data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &State{
		Config:   c,
		Schemas:  map[ioam.SchemaID]string{},
		fileSum:  hex.EncodeToString(sum[:]),
		fileSize: len(data),
		KeySum:   keySum(c),
		Loaded:   time.Now(),
	}, nil
}

// largeFile is the size of a file, in octets, of which the memory is worth returning.
const largeFile = 1 << 20

// Name makes the names that the state knows: those of its configuration, those of the node
// itself, which has that name, and for ids without any of these, those that were learned elsewhere.
func (s *State) Name(own string, learned *nodenames.Names) {
	s.Names = s.Config.KnownNames()
	node := nodenames.Node{ID: s.Resolved.Node.ID, IDWide: s.Resolved.Node.IDWide, Name: own}
	for _, i := range s.Resolved.Node.Interfaces {
		node.Interfaces = append(
			node.Interfaces,
			nodenames.Interface{ID: i.ID, IDWide: i.IDWide, Name: i.Name, Description: s.Resolved.Descriptions[i.Index]},
		)
	}
	s.Names.Add(node)
	s.Names.AddUnknown(learned)
}

// ReturnMemory gives the kernel back what reading a large file took: its tree is a hundred
// times as large, and the runtime would keep the memory for minutes.
func (s *State) ReturnMemory() {
	if s.fileSize >= largeFile {
		debug.FreeOSMemory()
	}
}

// keySum tells the contents of key files apart that services read for themselves. A file
// that cannot be read differs from all others; the service says why.
func keySum(c *config.Config) string {
	digest := sha256.New()
	add := func(file string) {
		data, err := os.ReadFile(file)
		fmt.Fprintf(digest, "%v %d ", err != nil, len(data))
		digest.Write(data)
	}
	if c.Stamp != nil && c.Stamp.KeyFile != "" {
		add(c.Stamp.KeyFile)
	}
	if c.Trace != nil && c.Trace.KeyFile != "" {
		add(c.Trace.KeyFile)
	}
	if c.Probes != nil && c.Probes.KeyFile != "" {
		add(c.Probes.KeyFile)
	}
	return string(digest.Sum(nil))
}

// savedState is a state in the runtime directory, kept while the running configuration
// differs from the file.
type savedState struct {
	FileSum string                   `json:"file_sha256"`
	Config  string                   `json:"config"` // YAML
	Schemas map[ioam.SchemaID]string `json:"schemas"`
}

// Save keeps the API's changes for the next agent.
func (s *State) Save(path string) error {
	b, err := json.Marshal(savedState{FileSum: s.fileSum, Config: string(s.Config.Marshal()), Schemas: s.Schemas})
	if err != nil {
		return err
	}
	if err := replacefile.Write(path, b, 0o600); err != nil {
		return fmt.Errorf("keep the running configuration: %w", err)
	}
	return nil
}

// errFileChanged is why a kept state is not restored.
var errFileChanged = errors.New("the configuration file has changed since")

// Restore is the state that an earlier agent kept, if the file has not changed since;
// nil when there is none.
func Restore(path string, file *State) (*State, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var saved savedState
	if err := json.Unmarshal(b, &saved); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if saved.FileSum != file.fileSum {
		return nil, errFileChanged
	}
	c, err := config.Parse(path, []byte(saved.Config))
	if err != nil {
		return nil, err
	}
	next := file.With(c)
	maps.Copy(next.Schemas, saved.Schemas)
	return next, nil
}
