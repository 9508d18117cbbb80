{{- define "kiosk.name" -}}
{{- if contains "kiosk" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-kiosk" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "kiosk.labels" -}}
app.kubernetes.io/name: kiosk
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kiosk.selector" -}}
app.kubernetes.io/name: kiosk
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kiosk.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "kiosk.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "kiosk.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* Everybody in a pod is the image's user; nothing of a pod needs rights on its node. */}}
{{- define "kiosk.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "kiosk.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The name of the group whose nodes run a kind of work. */}}
{{- define "kiosk.group" -}}
{{- $group := index .root.Values.workers .kind }}{{ ternary .kind "api" $group.enabled }}
{{- end }}

{{- define "kiosk.environment" -}}
- {name: KIOSK_DATA_DIR, value: /data}
- {name: KIOSK_MASTER_KEY_FILE, value: /run/secrets/kiosk/master-key}
- {name: KIOSK_REDIS_URL_FILE, value: /run/secrets/kiosk/redis-url}
{{- if .Values.secret.llmKey }}
- {name: KIOSK_LLM_KEY_FILE, value: /run/secrets/kiosk/llm-key}
{{- end }}
{{- if .Values.artifacts.url }}
- {name: KIOSK_ARTIFACTS_URL, value: {{ .Values.artifacts.url | quote }}}
{{- end }}
{{- range $name, $value := .Values.artifacts.credentialsEnvironment }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
- {name: KIOSK_API_NODES, value: kiosk-group=api}
- {name: KIOSK_ENGINE_NODES, value: kiosk-group={{ include "kiosk.group" (dict "root" . "kind" "engines") }}}
- {name: KIOSK_TRAINING_NODES, value: kiosk-group={{ include "kiosk.group" (dict "root" . "kind" "training") }}}
# Ray counts the memory of replicas, so that no pod takes more of them than it can hold.
- {name: KIOSK_RESERVE_MEMORY, value: "true"}
{{- if .Values.monitoring.podMonitor }}
- {name: KIOSK_HAPROXY_METRICS, value: "0.0.0.0:9101"}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- if ne (toString $value) "" }}
- {name: KIOSK_{{ upper $name }}, value: {{ toString $value | quote }}}
{{- end }}
{{- end }}
# The home directory is read-only.
- {name: HOME, value: /tmp}
# Workers wait that long for a new head.
- {name: RAY_gcs_rpc_server_reconnect_timeout_s, value: "600"}
{{- end }}

{{/* MiB that a replica may take above its budget: PROCESS_MB and ABOVE_BUDGET_MB of cluster/runtime/replica_resources.py. */}}
{{- define "kiosk.processMb" -}}656{{- end }}

{{/* A quantity of memory in MiB, as 6Gi or 4096Mi; empty for other units. */}}
{{- define "kiosk.mebibytes" -}}
{{- if hasSuffix "Gi" . }}{{ mulf (trimSuffix "Gi" . | float64) 1024 | int }}{{ else if hasSuffix "Mi" . }}{{ trimSuffix "Mi" . | float64 | int }}{{ end }}
{{- end }}

{{- define "kiosk.mounts" -}}
- {name: data, mountPath: /data}
- {name: secrets, mountPath: /run/secrets/kiosk, readOnly: true}
{{- if .Values.artifacts.credentialsSecret }}
- {name: artifacts, mountPath: /run/secrets/artifacts, readOnly: true}
{{- end }}
- {name: scratch, mountPath: /tmp}
{{- end }}

{{- define "kiosk.volumes" -}}
- name: data
{{- if or (not .Values.artifacts.url) .Values.artifacts.persistence.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.artifacts.persistence.existingClaim | default (printf "%s-artifacts" (include "kiosk.name" .)) }}}
{{- else }}
  emptyDir: {sizeLimit: {{ .Values.artifacts.cacheSize }}}
{{- end }}
- name: secrets
  secret:
    secretName: {{ .Values.secret.name }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.secret.masterKey }}, path: master-key}
      - {key: {{ .Values.secret.redisUrl }}, path: redis-url}
      {{- if .Values.secret.llmKey }}
      - {key: {{ .Values.secret.llmKey }}, path: llm-key}
      {{- end }}
{{- if .Values.artifacts.credentialsSecret }}
- name: artifacts
  secret: {secretName: {{ .Values.artifacts.credentialsSecret }}, defaultMode: 0440}
{{- end }}
- name: scratch
  emptyDir: {}
{{- end }}

{{/* What every pod has: nothing about other Services, no token, the image's user. */}}
{{- define "kiosk.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
serviceAccountName: {{ include "kiosk.serviceAccount" . }}
securityContext:
  {{- include "kiosk.podSecurity" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}
