-- Write a stream anew: entries that were cut off stay in its memory until their neighbours go too.
-- KEYS  1 stream without consumer groups
-- ARGV  1 most entries
-- Gives 1; 0 when it is too long for that, or empty.
local length = redis.call('XLEN', KEYS[1])
if length == 0 or length > tonumber(ARGV[1]) then
  return 0
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local last
for at = 1, #info, 2 do
  if info[at] == 'last-generated-id' then
    last = info[at + 1]
  end
end
local entries = redis.call('XRANGE', KEYS[1], '-', '+')
redis.call('DEL', KEYS[1])
for _, entry in ipairs(entries) do
  redis.call('XADD', KEYS[1], entry[1], unpack(entry[2]))
end
-- The newest id of the old stream: offsets must never be given twice.
redis.call('XSETID', KEYS[1], last)
return 1
