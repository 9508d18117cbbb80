-- Record how far a change log is compacted, and cut off what no live follower needs.
-- KEYS  1 change log  2 compacted offsets  3 trimmed  4 followers
-- ARGV  1 noun  2 offset  3 now ms  4 ms after which a follower counts as gone  5 ms until it is forgotten
-- Gives how many entries were cut off.
local noun, now = ARGV[1], tonumber(ARGV[3])

local function parts(offset)
  local ms, n = string.match(offset, '^(%d+)%-(%d+)$')
  return tonumber(ms or offset) or 0, tonumber(n or 0)
end

local function before(a, b)
  local a_ms, a_n = parts(a)
  local b_ms, b_n = parts(b)
  return a_ms < b_ms or (a_ms == b_ms and a_n < b_n)
end

local limit = redis.call('HGET', KEYS[2], noun) or '0'
-- A late caller with an older offset must not take the record back.
local is_newer = before(limit, ARGV[2])
if is_newer then
  limit = ARGV[2]
end
local settled = limit

local followers = redis.call('HGETALL', KEYS[4])
for i = 1, #followers, 2 do
  local read, follower = pcall(cjson.decode, followers[i + 1])
  local age = read and now - follower.at or nil
  if not age or age > tonumber(ARGV[5]) then
    redis.call('HDEL', KEYS[4], followers[i])
  -- A live follower that has not read an entry keeps it; one that was silent loads segments when it
  -- returns.
  elseif age <= tonumber(ARGV[4]) and follower[noun] and before(follower[noun], limit) then
    limit = follower[noun]
  end
end

local ms, n = parts(limit)
-- Trimming first: it is allowed also when memory is full, and then so is the rest.
local cut = redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%.0f-%.0f', ms, n + 1))
if is_newer then
  redis.call('HSET', KEYS[2], noun, settled)
end
if cut > 0 then
  -- Followers before this offset find a gap and load again.
  redis.call('HSET', KEYS[3], noun, limit)
end
return cut
