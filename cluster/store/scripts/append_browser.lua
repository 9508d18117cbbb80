-- Log interactions that came with a publishable key, link visitors to users, and push to recent lists, within bounds.
-- KEYS  1 change log  2 links  3 what strangers did on this day  4 bytes browsers wrote in this minute
--       5... recent lists and sets of linked visitors, named below by their number
-- ARGV  1 change payload  2 cap of a recent list  3 life of a recent list s  4 life of a stranger's new list s
--       5 age from which that list counts as returned to s  6 most one call evicts from a list  7 address
--       8 new readers of an address  9 of all addresses  10 bytes a minute  11 visitors of one user
--       12 addresses that are counted apart  13 life of the counts s  14 number of visitors
--       per visitor: anonymous id, user the caller believes it linked to, user it is linked to in this call
--       then steps: 'link', anonymous id, user, its list, the user's list, the user's visitors, user is proven
--                   'move', anonymous id, user, its list, the user's visitors, the former user's visitors
--                   'push', list, reader is proven, n, then n packed interactions, oldest first
-- Gives {1, offset, readers that were not added}, {0, anonymous id, user, ...} when the caller believed wrong, or {-1}
-- when browsers wrote too much; only the first has written.
local links, cap, life, young = KEYS[2], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local at = 15
local wrong = {0}
for _ = 1, tonumber(ARGV[14]) do
  local visitor, believed, paired = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local user = redis.call('HGET', links, visitor) or ''
  if user ~= believed and not (believed == '' and user == paired) then
    wrong[#wrong + 1] = visitor
    wrong[#wrong + 1] = user
  end
end
if #wrong > 1 then
  return wrong
end

local most_bytes = tonumber(ARGV[10])
if most_bytes > 0 then
  local written = redis.call('GET', KEYS[4])
  if written and tonumber(written) + #ARGV[1] > most_bytes then
    return {-1}
  end
  redis.call('INCRBY', KEYS[4], #ARGV[1])
  redis.call('EXPIRE', KEYS[4], 120)
end
local offset = redis.call('XADD', KEYS[1], '*', 'op', 'put', 'payload', ARGV[1])
local refused = 0

local function admit()
  -- May this address add a reader, or keep one for long?
  local mine = 'new:' .. ARGV[7]
  local held = redis.call('HMGET', KEYS[3], mine, 'new')
  -- Invented addresses can't fill the memory: beyond a number all further ones share a count.
  if not held[1] and redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[12]) then
    mine = 'new:rest'
    held[1] = redis.call('HGET', KEYS[3], mine)
  end
  if tonumber(held[1] or '0') >= tonumber(ARGV[8]) or tonumber(held[2] or '0') >= tonumber(ARGV[9]) then
    refused = refused + 1
    return false
  end
  redis.call('HINCRBY', KEYS[3], mine, 1)
  if redis.call('HINCRBY', KEYS[3], 'new', 1) == 1 then
    redis.call('EXPIRE', KEYS[3], ARGV[13])
  end
  return true
end

local room = {}
local function push(list, proven, first, n)
  local length = redis.call('LLEN', list)
  if length == 0 and proven == '0' and not admit() then
    return
  end
  if not room[list] then
    room[list] = math.max(tonumber(ARGV[6]), cap - length)
  end
  local keep = math.min(n, room[list])
  if keep == 0 then
    return
  end
  room[list] = room[list] - keep
  redis.call('LPUSH', list, unpack(ARGV, first + n - keep, first + n - 1))
  redis.call('LTRIM', list, 0, cap - 1)
  if proven == '1' then
    redis.call('EXPIRE', list, life)
  elseif length == 0 then
    redis.call('EXPIRE', list, young)
  else
    local left = redis.call('TTL', list)
    -- A list of long life keeps it; a young one gets it when its user returns in another session.
    if left > young or (left <= young - tonumber(ARGV[5]) and admit()) then
      redis.call('EXPIRE', list, life)
    end
  end
end

while at <= #ARGV do
  local step = ARGV[at]
  if step == 'push' then
    local n = tonumber(ARGV[at + 3])
    push(KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2], at + 4, n)
    at = at + 4 + n
  elseif step == 'move' then
    local visitor, user, list = ARGV[at + 1], ARGV[at + 2], KEYS[tonumber(ARGV[at + 3])]
    -- Another person at the same device: what the visitor did belongs to the former user.
    redis.call('DEL', list)
    redis.call('SREM', KEYS[tonumber(ARGV[at + 5])], visitor)
    local visitors = KEYS[tonumber(ARGV[at + 4])]
    -- The bounds of links hold here too: a link that this call was refused is not there to move.
    if redis.call('HDEL', links, visitor) == 1 and redis.call('SCARD', visitors) < tonumber(ARGV[11]) then
      redis.call('HSET', links, visitor, user)
      redis.call('SADD', visitors, visitor)
    end
    at = at + 6
  else
    local visitor, user, visitors = ARGV[at + 1], ARGV[at + 2], KEYS[tonumber(ARGV[at + 5])]
    local linked = redis.call('HEXISTS', links, visitor) == 1
    local few = redis.call('SCARD', visitors) < tonumber(ARGV[11])
    if not linked and few and (ARGV[at + 6] == '1' or admit()) then
      redis.call('HSET', links, visitor, user)
      redis.call('SADD', visitors, visitor)
      local theirs = KEYS[tonumber(ARGV[at + 4])]
      local length = redis.call('LLEN', theirs)
      local done = redis.call('LRANGE', KEYS[tonumber(ARGV[at + 3])], 0, cap - 1)
      room[theirs] = room[theirs] or math.max(tonumber(ARGV[6]), cap - length)
      local keep = math.min(#done, room[theirs])
      if keep > 0 then
        local oldest_first = {}
        for i = keep, 1, -1 do
          oldest_first[#oldest_first + 1] = done[i]
        end
        room[theirs] = room[theirs] - keep
        redis.call('LPUSH', theirs, unpack(oldest_first))
        redis.call('LTRIM', theirs, 0, cap - 1)
        if ARGV[at + 6] == '1' then
          redis.call('EXPIRE', theirs, life)
        elseif length == 0 then
          redis.call('EXPIRE', theirs, young)
        end
      end
    end
    at = at + 7
  end
end
return {1, offset, refused}
