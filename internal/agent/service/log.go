// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"log/slog"

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
	log.Log(context.Background(), level, w.Text, append(attributes, "cure", w.Cure)...)
}
