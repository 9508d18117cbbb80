{{/* The pod of one Ray node. Takes root, group (its values), name and head (whether it is the head). */}}
{{- define "kiosk.rayPod" -}}
{{- $root := .root }}
metadata:
  labels:
    {{- include "kiosk.selector" $root | nindent 4 }}
    kiosk/group: {{ .name }}
spec:
  {{- include "kiosk.pod" $root | nindent 2 }}
  terminationGracePeriodSeconds: {{ .group.graceSeconds }}
  {{- with .group.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .group.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .group.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: {{ $root.Values.spread.topologyKey }}
      whenUnsatisfiable: {{ $root.Values.spread.whenUnsatisfiable }}
      labelSelector:
        matchLabels:
          {{- include "kiosk.selector" $root | nindent 10 }}
          kiosk/group: {{ .name }}
  containers:
    - name: {{ ternary "ray-head" "ray-worker" .head }}
      image: {{ include "kiosk.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      command: ["/bin/bash", "-c"]
      args:
        {{- if .head }}
        # A new head creates what is missing: apps, keys and the actors that exist once.
        - |
          ulimit -n 65536
          python -m cluster.runtime.handover $KUBERAY_GEN_RAY_START_CMD &
          until kiosk cluster attach; do
            if [ "$SECONDS" -ge {{ .group.attachSeconds }} ]; then
              echo "Nothing was attached within {{ .group.attachSeconds }} s; the lines above have the reason." >&2
              exit 1
            fi
            sleep 5
          done
          wait
        {{- else }}
        - ulimit -n 65536; exec python -m cluster.runtime.handover $KUBERAY_GEN_RAY_START_CMD
        {{- end }}
      ports:
        {{- if .head }}
        - {containerPort: 6379, name: gcs-server}
        - {containerPort: 8265, name: dashboard}
        {{- end }}
        - {containerPort: 8000, name: serve}
        - {containerPort: 8080, name: metrics}
        {{- if and (eq .name "api") $root.Values.monitoring.podMonitor }}
        - {containerPort: 9101, name: haproxy}
        {{- end }}
        - {containerPort: 52365, name: agent}
      env:
        {{- include "kiosk.environment" $root | nindent 8 }}
      startupProbe:
        httpGet: {path: {{ ternary "/api/gcs_healthz" "/api/local_raylet_healthz" .head }}, port: {{ ternary "dashboard" "agent" .head }}}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /api/local_raylet_healthz, port: agent}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 12
      readinessProbe:
        {{- if eq .name "api" }}
        # Ready when this node's HAProxy has a replica to send requests to, not when Ray runs. Not `/-/ready`: it is one
        # replica's answer, and could take every pod out of service at once.
        httpGet: {path: /-/healthz, port: serve}
        {{- else }}
        httpGet: {path: {{ ternary "/api/gcs_healthz" "/api/local_raylet_healthz" .head }}, port: {{ ternary "dashboard" "agent" .head }}}
        {{- end }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      lifecycle:
        preStop:
          exec:
            {{- if .head }}
            command: ["ray", "stop"]
            {{- else }}
            # Serve moves the replicas of a draining node to others before the pod ends.
            command: ["python", "-m", "cluster.runtime.drain", "{{ sub .group.graceSeconds 20 }}"]
            {{- end }}
      securityContext:
        {{- include "kiosk.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        {{- include "kiosk.mounts" $root | nindent 8 }}
        - {name: ray-logs, mountPath: /tmp/ray}
        - {name: shared-memory, mountPath: /dev/shm}
      resources: {{ toYaml .group.resources | nindent 8 }}
    {{- if $root.Values.logs.enabled }}
    - name: logs
      image: {{ $root.Values.logs.image }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: ["--config=/etc/kiosk/fluent-bit.yaml"]
      securityContext:
        {{- include "kiosk.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: ray-logs, mountPath: /tmp/ray, readOnly: true}
        - {name: logs-config, mountPath: /etc/kiosk, readOnly: true}
      resources: {{ toYaml $root.Values.logs.resources | nindent 8 }}
    {{- end }}
  volumes:
    {{- include "kiosk.volumes" $root | nindent 4 }}
    - name: ray-logs
      emptyDir: {}
    - name: shared-memory
      emptyDir: {medium: Memory, sizeLimit: {{ add .group.objectStoreMb 64 }}Mi}
    {{- if $root.Values.logs.enabled }}
    - name: logs-config
      configMap: {name: {{ include "kiosk.name" $root }}-logs}
    {{- end }}
    {{- if and .head $root.Values.autoscaling.enabled }}
    # The autoscaler speaks to Kubernetes; Kiosk's own container never sees this token.
    - name: kubernetes
      projected:
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3607}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
    {{- end }}
{{- end }}
