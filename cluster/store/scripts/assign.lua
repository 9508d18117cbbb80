-- Get or set the variant of a person known under a few reader ids.
-- KEYS  1 reader id -> packed exposure  2 person -> their other reader ids, each as <length>:<id>
-- ARGV  1 'read', 'take' or 'force'  2 proposed exposure up to its person, or ''  3 number of variants
--       4... variant ids, then reader ids, the one that wins first
-- Gives the packed exposure, or '' when there is none.
local variants = tonumber(ARGV[3])
local known = {}
for i = 4, 3 + variants do
  known[ARGV[i]] = true
end
local held, winner = {}, nil
for i = 4 + variants, #ARGV do
  local packed = redis.call('HGET', KEYS[1], ARGV[i])
  held[i] = packed
  if packed and not winner and known[string.match(packed, '^([^\31]*)')] then
    winner = packed
  end
end
local person = ARGV[4 + variants]
if winner then
  person = string.match(winner, '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$') or person
end
if ARGV[1] ~= 'read' and ARGV[2] ~= '' and (ARGV[1] == 'force' or not winner) then
  winner = ARGV[2] .. person
end
if ARGV[1] == 'read' or not winner then
  return winner or ''
end
for i = 4 + variants, #ARGV do
  if held[i] ~= winner then
    redis.call('HSET', KEYS[1], ARGV[i], winner)
    if ARGV[i] ~= person then
      local others = redis.call('HGET', KEYS[2], person) or ''
      local at, there = 1, false
      while at <= #others and not there do
        local colon = string.find(others, ':', at, true)
        local length = tonumber(string.sub(others, at, colon - 1))
        there = string.sub(others, colon + 1, colon + length) == ARGV[i]
        at = colon + length + 1
      end
      if not there then
        redis.call('HSET', KEYS[2], person, others .. #ARGV[i] .. ':' .. ARGV[i])
      end
    end
  end
end
return winner
