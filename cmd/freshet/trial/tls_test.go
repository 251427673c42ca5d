package trial

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T, serial int64, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "freshet test"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, x, x, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serial returns the serial number of a server's certificate.
func serial(t *testing.T, url string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// With a certificate everything uses TLS, including links and the WebSocket. SIGHUP loads a
// renewed certificate and keeps the old one if the new one is invalid.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, 1, cert, key)
	s := newTestServer(t, "tls: {cert: "+cert+", key: "+key+"}\ntokens: [{name: ops, role: admin, sha256: \""+
		registry.HashSecret("do-what-has-to-be-done")+"\"}]\n")
	if !strings.HasPrefix(s.srv.Url, "https://") {
		t.Fatalf("it says that it serves at %s", s.srv.Url)
	}
	// A process reads its trusted certificates once, so the client runs in its own process.
	freshet := func(trust, stdin string, args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), binary(t), args...)
		c.Env = append(os.Environ(), "FRESHET_SERVER="+s.srv.Url, "FRESHET_TOKEN=do-what-has-to-be-done", "SSL_CERT_FILE="+trust)
		c.Stdin = strings.NewReader(stdin)
		return c
	}
	if out, err := freshet(os.DevNull, "", "query", "list").CombinedOutput(); freshetCode(err) != cli.ExitUnreachable ||
		!strings.Contains(string(out), "SSL_CERT_FILE") {
		t.Errorf("without trust: %v\n%s", err, out)
	}
	for _, line := range []string{"query add --name rows -", "endpoint tick city"} {
		if out, err := freshet(cert, "SELECT ?s { ?s ?p ?o }", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	watch := freshet(cert, "", "watch", "rows", "--json")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(out); ; {
		var m struct{ Type, Topic string }
		if err := d.Decode(&m); err != nil {
			t.Fatalf("watching over TLS: %v", err)
		}
		if m.Type == "subscribed" && !strings.HasPrefix(m.Topic, "https://") {
			t.Errorf("the topic is %s", m.Topic)
		}
		if m.Type == "snapshot" {
			break
		}
	}
	if err := watch.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("watch ended with %v after an interrupt", err)
	}
	hangup := func(says string) {
		t.Helper()
		before := strings.Count(s.srv.Stderr.String(), says)
		if err := s.srv.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for range 1200 {
			if strings.Count(s.srv.Stderr.String(), says) > before {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("no %q after SIGHUP:\n%s", says, s.srv.Stderr)
	}
	selfSigned(t, 2, cert, key)
	hangup("is reloaded")
	if got := serial(t, s.srv.Url); got != 2 {
		t.Errorf("after SIGHUP the certificate is number %d, want the renewed one, 2", got)
	}
	if err := os.WriteFile(cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	hangup("old settings stay")
	if got := serial(t, s.srv.Url); got != 2 {
		t.Errorf("after SIGHUP with a bad file the certificate is number %d, want the last good one, 2", got)
	}
	code, stdout, stderr := runCLI(t, nil, "", "serve", "--config", s.srv.Cmd.Args[3], "--listen", "127.0.0.1:0", "--data", t.TempDir())
	if code != cli.ExitUsage || !strings.Contains(stderr, "cert.pem") && !strings.Contains(stderr, "tls:") ||
		strings.Contains(stderr, "serving") {
		t.Errorf("a start with a bad certificate: exit code %d, %q %q", code, stdout, stderr)
	}
}

// freshetCode returns the exit code of a process that has ended.
func freshetCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return cli.ExitOK
}
