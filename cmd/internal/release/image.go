package main

// This file writes container images without an engine: an OCI image layout as a tar file, which docker load, podman load,
// skopeo and crane read. It is made of the same bytes on any machine.

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user in the container. No user of a host has this number.
const imageUser = 65532

// A blob is a part of an image, named by its digest.
type blob struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`

	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    map[string]string `json:"platform,omitempty"`

	data []byte
}

func blobOf(mediaType string, data []byte) blob {
	return blob{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)), Size: len(data), data: data}
}

func blobOfJSON(mediaType string, v any) (blob, error) {
	b, err := json.Marshal(v)
	return blobOf(mediaType, b), err
}

// path is where an image layout has the blob.
func (b *blob) path() string { return "blobs/" + strings.Replace(b.Digest, ":", "/", 1) }

const (
	imageManifest = "application/vnd.oci.image.manifest.v1+json"
	imageConfig   = "application/vnd.oci.image.config.v1+json"
	imageLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image writes the image of an architecture.
func (r *release) image(arch string) error {
	dir, _, err := r.programs("linux/" + arch)
	if err != nil {
		return err
	}
	plain, err := r.imageFiles(filepath.Join(dir, "freshet"))
	if err != nil {
		return err
	}
	layer := blobOf(imageLayer, gzipped(plain, r.level()))
	config, err := blobOfJSON(imageConfig, map[string]any{
		"created": r.time.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%d", imageUser, imageUser), "Entrypoint": []string{"/usr/bin/freshet"}, "Cmd": []string{"serve"},
			"Env":          []string{"PATH=/usr/bin", "FRESHET_DATA=/data", "FRESHET_LISTEN=0.0.0.0:8080"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}},
			"Healthcheck": map[string]any{"Test": []string{"CMD", "/usr/bin/freshet", "health"},
				"Interval": 30 * time.Second, "Timeout": 5 * time.Second, "StartPeriod": 5 * time.Minute},
			"Volumes": map[string]any{"/data": struct{}{}}, "WorkingDir": "/data",
			"Labels": map[string]string{"org.opencontainers.image.title": "Freshet", "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.licenses": "Apache-2.0"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain))}},
		"history": []any{map[string]any{"created": r.time.Format(time.RFC3339), "created_by": "make image"}},
	})
	if err != nil {
		return err
	}
	manifest, err := blobOfJSON(imageManifest, map[string]any{"schemaVersion": 2, "mediaType": imageManifest,
		"config": config, "layers": []blob{layer}})
	if err != nil {
		return err
	}
	manifest.Platform = map[string]string{"architecture": arch, "os": "linux"}
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name": "docker.io/library/freshet:" + r.version}
	return r.imageLayout(filepath.Join(r.out, "freshet-"+r.version+"-linux-"+arch+".oci.tar"), []blob{config, layer, manifest})
}

// imageLayout writes the blobs of an image, of which the last is the manifest.
func (r *release) imageLayout(path string, blobs []blob) error {
	manifest := blobs[len(blobs)-1]
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
		"manifests": []blob{manifest}})
	if err != nil {
		return err
	}
	// Docker before version 25 reads this file instead of the index.
	old, err := json.Marshal([]any{map[string]any{"Config": blobs[0].path(), "RepoTags": []string{"freshet:" + r.version},
		"Layers": []string{blobs[1].path()}}})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	err = cmp.Or(r.put(t, "oci-layout", 0o644, 0, []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		r.put(t, "index.json", 0o644, 0, index), r.put(t, "manifest.json", 0o644, 0, old))
	for _, x := range blobs {
		err = cmp.Or(err, r.put(t, x.path(), 0o644, 0, x.data))
	}
	return cmp.Or(err, t.Close(), os.WriteFile(path, b.Bytes(), 0o644))
}

// imageFiles returns the one layer: the program, the roots of TLS, and directories that the server may write to. The roots are
// those of Mozilla in a module, because those of the machine that builds would differ.
func (r *release) imageFiles(program string) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var roots []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	user := fmt.Sprintf("root:x:0:0::/:\nfreshet:x:%d:%d::/data:\n", imageUser, imageUser)
	err = errors.Join(
		r.put(t, "usr/bin/freshet", 0o755, 0, binary), r.put(t, "etc/ssl/certs/ca-certificates.crt", 0o644, 0, roots),
		r.put(t, "etc/passwd", 0o644, 0, []byte(user)), r.put(t, "data/", 0o700, imageUser, nil),
		r.put(t, "tmp/", 0o1777, 0, nil), t.Close())
	return b.Bytes(), err
}

// put writes a file into an archive; a name that ends in a slash is a directory.
func (r *release) put(t *tar.Writer, name string, mode int64, user int, data []byte) error {
	h := &tar.Header{Name: name, Mode: mode, Uid: user, Gid: user, Size: int64(len(data)), ModTime: r.time, Format: tar.FormatPAX}
	h.Typeflag = tar.TypeReg
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}
