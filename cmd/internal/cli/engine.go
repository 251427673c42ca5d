package cli

import (
	"context"
	"log/slog"

	"github.com/freshet/freshet/endpoint/local"
)

// OpenEngine starts the embedded engine. A missing engine file is a usage error.
func OpenEngine(ctx context.Context, explicit string, log *slog.Logger) (*local.Engine, error) {
	path, err := local.FindEngine(explicit)
	if err != nil {
		return nil, WithCode(ExitUsage, err)
	}
	return local.Open(ctx, local.Options{Path: path, Logger: log})
}
