// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"weak"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/specialize"
	"github.com/waymark-net/waymark/internal/problem"
)

// hookName is the name of a hook's program in its object.
type hookName string

const (
	hookIngressXDP hookName = "ingress_xdp"
	hookIngressTC  hookName = "ingress_tc"
	hookEgressTC   hookName = "egress_tc"
	hookTap        hookName = "tap"        // of a packet socket, see unserved.go
	hookTapMember  hookName = "tap_member" // likewise, where a bridge or bond takes the packets
)

// hook is one place where a program handles packets.
type hook struct {
	name   hookName
	object *shared[ebpf.CollectionSpec] // the file that has it, as it was parsed
}

var hooks = map[hookName]hook{
	hookIngressXDP: {hookIngressXDP, objectIngressXDP},
	hookIngressTC:  {hookIngressTC, objectIngressTC},
	hookEgressTC:   {hookEgressTC, objectEgressTC},
	hookTap:        {hookTap, objectTap},
	hookTapMember:  {hookTapMember, objectTap},
}

// What is parsed to load programs takes about as long as the verifier does for a small one.
var (
	objectIngressXDP = &shared[ebpf.CollectionSpec]{parse: bpf.LoadIngressXDP}
	objectIngressTC  = &shared[ebpf.CollectionSpec]{parse: bpf.LoadIngressTC}
	objectEgressTC   = &shared[ebpf.CollectionSpec]{parse: bpf.LoadEgressTC}
	objectTap        = &shared[ebpf.CollectionSpec]{parse: bpf.LoadTap}
	kernelTypes      = &shared[btf.Cache]{parse: func() (*btf.Cache, error) { return btf.NewCache(), nil }}
)

// shared is what was parsed once, and is kept while it is in use: an agent needs it when it starts,
// and then hardly ever.
type shared[T any] struct {
	parse func() (*T, error)

	mu     sync.Mutex
	parsed weak.Pointer[T]
}

// get is what was parsed; callers do not change it.
func (s *shared[T]) get() (*T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if parsed := s.parsed.Value(); parsed != nil {
		return parsed, nil
	}
	parsed, err := s.parse()
	if err == nil {
		s.parsed = weak.Make(parsed)
	}
	return parsed, err
}

// keepParsed keeps all that is parsed from now on, for a process that loads programs many times.
var keepParsed = sync.OnceValue(func() (kept []any) {
	for _, h := range hooks {
		if spec, err := h.object.get(); err == nil { // else who loads its program gets the error
			kept = append(kept, spec)
		}
	}
	types, _ := kernelTypes.get()
	return append(kept, types)
})

// ingressHook is the ingress hook for an attach mode.
func ingressHook(mode attach.Mode) hookName {
	if mode == attach.XDP {
		return hookIngressXDP
	}
	return hookIngressTC
}

// mapSpecs are the maps' definitions, which are the same in every object. The one without programs
// is parsed soonest.
func mapSpecs() (map[string]*ebpf.MapSpec, error) {
	spec, err := bpf.LoadMaps()
	if err != nil {
		return nil, err
	}
	bpf.Mappable(spec.Maps)
	return spec.Maps, nil
}

// program loads one hook's program with its constants and the given maps.
func (h hook) program(node bpf.ABINodeConfig, maps bpf.Maps) (*ebpf.Program, error) {
	parsed, err := h.object.get()
	if err != nil {
		return nil, err
	}
	spec := parsed.Copy()
	if err := spec.Variables["NODE"].Set(node); err != nil {
		return nil, fmt.Errorf("set constants of %s: %w", h.name, err)
	}
	if err := writeConstants(spec, string(h.name)); err != nil {
		return nil, fmt.Errorf("write the constants of %s: %w", h.name, err)
	}
	replacements := make(map[string]*ebpf.Map)
	for name, m := range maps {
		if ms, ok := spec.Maps[name]; ok {
			ms.MaxEntries, ms.Flags = m.MaxEntries(), m.Flags()
			replacements[name] = m
		}
	}
	for name := range spec.Programs {
		if name != string(h.name) {
			delete(spec.Programs, name)
		}
	}
	types, err := kernelTypes.get()
	if err != nil {
		return nil, err
	}
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replacements, Cache: types})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", h.name, explain(err))
	}
	program := collection.DetachProgram(string(h.name))
	collection.Close()
	return program, nil
}

// constantsSection is where objects keep their constants.
const constantsSection = ".rodata"

// writeConstants writes the constants of an object into one of its programs.
func writeConstants(spec *ebpf.CollectionSpec, program string) (err error) {
	section, p := spec.Maps[constantsSection], spec.Programs[program]
	if section == nil || p == nil || len(section.Contents) != 1 {
		return fmt.Errorf("the object has no constants, or no program %s", program)
	}
	inObject, ok := section.Contents[0].Value.([]byte)
	if !ok {
		return fmt.Errorf("the section %s has contents of type %T", constantsSection, section.Contents[0].Value)
	}
	constants := bytes.Clone(inObject)
	for name, v := range spec.Variables {
		if v.SectionName != constantsSection || v.Value == nil {
			continue
		}
		if uint64(v.Offset)+uint64(len(v.Value)) > uint64(len(constants)) {
			return fmt.Errorf("the constant %s is outside of its section", name)
		}
		copy(constants[v.Offset:], v.Value)
	}
	p.Instructions, err = specialize.Program(p.Instructions, constantsSection, constants)
	return err
}

// explain adds a cure to errors of the kernel where there is one.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
		return fmt.Errorf("refused by the kernel's verifier: %w (please report this with the kernel's version)", err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return problem.Wrap(fmt.Errorf("%w: this kernel lacks a BPF feature (Waymark needs Linux 6.1 or newer)", err), "see: waymark doctor")
	}
	return err
}
