// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// tellNames adds the options records for names.
func (s *session) tellNames(facts sink.Facts) error {
	o := s.c.options
	name := record.DomainName{
		Domain: record.NewField(s.c.config.Domain, true), Name: facts.Node,
		ID: record.NewField(facts.NodeID, true), IDWide: record.NewField(facts.NodeIDWide, true),
	}
	if err := s.option(o.DomainName.Template, o.DomainName.Append(nil, &name)); err != nil {
		return err
	}
	for _, l := range facts.Interfaces {
		name := record.InterfaceName{
			Index: l.Index, Name: l.Name, Description: l.Description, ID: record.NewField(l.ID, true), IDWide: record.NewField(l.IDWide, true),
		}
		if err := s.option(o.InterfaceName.Template, o.InterfaceName.Append(nil, &name)); err != nil {
			return err
		}
	}
	return nil
}

// tellStatistics adds the options records of RFC 7011 §4.
func (s *session) tellStatistics(facts sink.Facts) error {
	o, stats := s.c.options, s.c.Stats()
	metering := record.Metering{Domain: s.c.config.Domain, Messages: stats.Messages, Records: stats.Written, Octets: stats.Octets}
	if err := s.option(o.Metering.Template, o.Metering.Append(nil, &metering)); err != nil {
		return err
	}
	ignored := record.Ignored{
		Domain: s.c.config.Domain, Packets: facts.Ignored, First: instant.Time{Time: facts.FirstLoss}, Last: instant.Time{Time: facts.LastLoss},
		Suppressed: facts.Suppressed, Lost: facts.Lost,
	}
	if err := s.option(o.Ignored.Template, o.Ignored.Append(nil, &ignored)); err != nil {
		return err
	}
	u := s.c.unsent.read()
	unsent := record.Unsent{
		Process: s.c.process, Records: stats.Missed(), Packets: u.Packets, Octets: u.Octets,
		First: instant.Time{Time: u.first}, Last: instant.Time{Time: u.last},
		QueueFull: stats.Dropped, ConnectionLost: stats.Lost, Unencodable: stats.Unencodable,
	}
	return s.option(o.Unsent.Template, o.Unsent.Append(nil, &unsent))
}
