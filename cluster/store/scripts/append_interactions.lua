-- Log interactions, link visitors to users, and push to recent lists.
-- KEYS  1 change log  2 links  3... recent lists and sets of linked visitors, named below by their number
-- ARGV  1 change payload  2 cap of a recent list  3 life of a recent list s  4 number of visitors
--       per visitor: anonymous id, user the caller believes it linked to, user it is linked to in this call
--       then steps: 'link', anonymous id, user, its list, the user's list, the user's visitors
--                   'move', anonymous id, user, its list, the user's visitors, the former user's visitors
--                   'push', list, n, then n packed interactions, oldest first
--                   'add', likewise, for a list whose life was renewed a short while ago: left as it is, if it lives
-- Gives {1, offset}, or {0, anonymous id, user, ...} when the caller believed wrong: then nothing is written.
local links, cap, life = KEYS[2], tonumber(ARGV[2]), ARGV[3]
local at = 5
local wrong = {0}
for _ = 1, tonumber(ARGV[4]) do
  local visitor, believed, paired = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local user = redis.call('HGET', links, visitor) or ''
  -- A visitor that is linked to the user of this call already is the usual case, and needs no second try.
  if user ~= believed and not (believed == '' and user == paired) then
    wrong[#wrong + 1] = visitor
    wrong[#wrong + 1] = user
  end
end
if #wrong > 1 then
  return wrong
end

local offset = redis.call('XADD', KEYS[1], '*', 'op', 'put', 'payload', ARGV[1])

local function push(renewed, list, ...)
  local length = redis.call('LPUSH', list, ...)
  if length > cap then
    redis.call('LTRIM', list, 0, cap - 1)
  end
  -- A list as long as this push is new, whatever the caller remembers of it.
  if not renewed or length == select('#', ...) then
    redis.call('EXPIRE', list, life)
  end
end

while at <= #ARGV do
  local step = ARGV[at]
  if step == 'push' or step == 'add' then
    local n = tonumber(ARGV[at + 2])
    push(step == 'add', KEYS[tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, at + 2 + n))
    at = at + 3 + n
  else
    local visitor, user, list = ARGV[at + 1], ARGV[at + 2], KEYS[tonumber(ARGV[at + 3])]
    if step == 'move' then
      -- Another person at the same device: what the visitor did belongs to the former user.
      redis.call('DEL', list)
      redis.call('HSET', links, visitor, user)
      redis.call('SREM', KEYS[tonumber(ARGV[at + 5])], visitor)
      redis.call('SADD', KEYS[tonumber(ARGV[at + 4])], visitor)
    elseif redis.call('HSETNX', links, visitor, user) == 1 then
      redis.call('SADD', KEYS[tonumber(ARGV[at + 5])], visitor)
      local done = redis.call('LRANGE', list, 0, cap - 1)
      if #done > 0 then
        local oldest_first = {}
        for i = #done, 1, -1 do
          oldest_first[#oldest_first + 1] = done[i]
        end
        push(false, KEYS[tonumber(ARGV[at + 4])], unpack(oldest_first))
      end
    end
    at = at + 6
  end
end
return {1, offset}
