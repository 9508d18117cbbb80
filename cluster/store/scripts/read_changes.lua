-- Read changes after offsets without waiting, so many and so much a log.
-- KEYS  change logs
-- ARGV  1 most entries a log  2 bytes after which a log gives no further entry  3... offset a log
-- Gives per log an array of {offset, fields}.
local answer = {}
for n, log in ipairs(KEYS) do
  local entries, bytes, after = {}, tonumber(ARGV[2]), ARGV[n + 2]
  while #entries < tonumber(ARGV[1]) and bytes > 0 do
    local entry = redis.call('XRANGE', log, '(' .. after, '+', 'COUNT', 1)[1]
    if not entry then
      break
    end
    entries[#entries + 1] = entry
    after = entry[1]
    for _, field in ipairs(entry[2]) do
      bytes = bytes - #field
    end
  end
  answer[n] = entries
end
return answer
