package notify

// Connections is the number of connections that are open now.
func (s *Server) Connections() int64 { return s.connections.Load() }
