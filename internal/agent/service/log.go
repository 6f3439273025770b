// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/waymark-net/waymark/internal/health"
)

// LogWarning logs a warning with its cure.
func LogWarning(log *slog.Logger, w health.Warning) {
	level := slog.LevelWarn
	switch w.Severity {
	case health.Error:
		level = slog.LevelError
	case health.Info:
		level = slog.LevelInfo
	}
	attributes := []any{"warning", w.Code}
	if w.Interface != "" {
		attributes = append(attributes, "interface", w.Interface)
	}
	log.Log(context.WithValue(context.Background(), warningKey{}, w), level, w.Text, append(attributes, "cure", w.Cure)...)
}

// warningKey is the key of the context in which a warning is logged.
type warningKey struct{}

// FollowWarnings is the same log; found gets each warning that LogWarning writes there, with the time
// of its line.
func FollowWarnings(log *slog.Logger, found func(health.Warning, time.Time)) *slog.Logger {
	return slog.New(warningFollower{log.Handler(), found})
}

type warningFollower struct {
	slog.Handler
	found func(health.Warning, time.Time)
}

func (f warningFollower) Handle(ctx context.Context, r slog.Record) error {
	if w, ok := ctx.Value(warningKey{}).(health.Warning); ok {
		f.found(w, r.Time)
	}
	return f.Handler.Handle(ctx, r)
}

func (f warningFollower) WithAttrs(list []slog.Attr) slog.Handler {
	return warningFollower{f.Handler.WithAttrs(list), f.found}
}

func (f warningFollower) WithGroup(name string) slog.Handler {
	return warningFollower{f.Handler.WithGroup(name), f.found}
}
