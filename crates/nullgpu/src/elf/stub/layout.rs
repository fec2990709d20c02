//! What lies where in a stub.

use object::write::StringId;
use object::write::elf::{SectionIndex, SymbolIndex, Writer};

use super::{CORE_SONAME, Error, FUNCTION_SIZE, PAGE, RECORD_SIZE, REGISTER, Stub, WORD, narrow};

/// Offsets in the file, which are addresses too: nothing is gained by packing a few pages.
pub(super) struct Layout {
    pub(super) soname: StringId,
    pub(super) needed: StringId,
    pub(super) register: StringId,
    pub(super) names: Vec<StringId>,
    pub(super) versions: Vec<StringId>,
    /// The symbol of the core's function; those of the stub follow.
    pub(super) register_index: SymbolIndex,
    pub(super) symbol_count: u32,
    pub(super) bloom_count: u32,
    /// 0 without versions.
    pub(super) verdef_count: u16,
    pub(super) gnu_hash: u64,
    pub(super) dynsym: u64,
    pub(super) dynstr: u64,
    pub(super) dynstr_size: u64,
    pub(super) versym: u64,
    pub(super) verdef: u64,
    pub(super) relocations: u64,
    pub(super) relocations_size: u64,
    pub(super) texts_at: u64,
    pub(super) readable_end: u64,
    /// The functions, then one that returns 0, then the initialiser.
    pub(super) code_at: u64,
    pub(super) zero_at: u64,
    pub(super) init_at: u64,
    pub(super) code_end: u64,
    pub(super) dynamic: u64,
    pub(super) dynamic_count: usize,
    pub(super) init_array: u64,
    pub(super) record: u64,
    pub(super) imported: u64,
    pub(super) last: u64,
    /// Where the last call is left as long as nobody says otherwise.
    pub(super) last_here: u64,
    pub(super) slots: u64,
    pub(super) data_end: u64,
    /// Behind the file's end: they begin as zeros.
    pub(super) counters: u64,
    pub(super) relocations_name: StringId,
    pub(super) code_name: StringId,
    pub(super) code_section: SectionIndex,
    pub(super) data_name: StringId,
    pub(super) counters_name: StringId,
}

impl Layout {
    /// Reserves everything, in the order in which it is written.
    pub(super) fn new<'a>(stub: &'a Stub<'a>, writer: &mut Writer<'a>) -> Result<Self, Error> {
        let count = stub.named.len() as u64;
        let symbol_count: u32 = narrow(count)?;
        let bloom_count = (symbol_count / 8).max(1).next_power_of_two();
        let verdef_count: u16 = if stub.versions.is_empty() { 0 } else { narrow(stub.versions.len() + 1)? };

        writer.reserve_file_header();
        writer.reserve_program_headers(5);
        let soname = writer.add_dynamic_string(stub.soname.as_bytes());
        let needed = writer.add_dynamic_string(CORE_SONAME.as_bytes());
        let register = writer.add_dynamic_string(REGISTER.as_bytes());
        let names: Vec<_> = stub.named.iter().map(|named| writer.add_dynamic_string(named.name.as_bytes())).collect();
        let versions: Vec<_> =
            stub.versions.iter().map(|version| writer.add_dynamic_string(version.as_bytes())).collect();
        let register_index = writer.reserve_dynamic_symbol_index();
        for _ in &stub.named {
            writer.reserve_dynamic_symbol_index();
        }
        let gnu_hash = writer.reserve_gnu_hash(bloom_count, stub.bucket_count, symbol_count);
        let dynsym = writer.reserve_dynsym();
        let dynstr = writer.reserve_dynstr()?;
        let dynstr_size = u64::from(writer.dynstr_len());
        let versym = if verdef_count > 0 { writer.reserve_gnu_versym() } else { 0 };
        let verdef = writer.reserve_gnu_verdef(verdef_count, verdef_count.into());
        // Five words of the record, the initialiser, where the last call is left, every slot, and the core's function.
        let relocation_count = 5 + 1 + 1 + stub.named.len() + 1;
        let relocations = writer.reserve_relocations(relocation_count, true);
        let relocations_size = relocation_count as u64 * 24;
        let texts_at = writer.reserve(stub.texts().len() as u64, 1);
        let readable_end = writer.reserved_len();

        let code_at = writer.reserve(count * FUNCTION_SIZE + 2 * FUNCTION_SIZE, PAGE);
        let code_end = writer.reserved_len();
        let zero_at = code_at + count * FUNCTION_SIZE;
        let init_at = zero_at + FUNCTION_SIZE;

        writer.reserve(0, PAGE);
        let dynamic_count = if verdef_count > 0 { 15 } else { 12 };
        let dynamic = writer.reserve_dynamic(dynamic_count);
        let init_array = writer.reserve(WORD, WORD);
        let record = writer.reserve(RECORD_SIZE, WORD);
        let imported = writer.reserve(WORD, WORD);
        let last = writer.reserve(WORD, WORD);
        let last_here = writer.reserve(WORD, WORD);
        let slots = writer.reserve(count * WORD, WORD);
        let data_end = writer.reserved_len();

        writer.reserve_gnu_hash_section_index();
        writer.reserve_dynsym_section_index();
        writer.reserve_dynstr_section_index();
        if verdef_count > 0 {
            writer.reserve_gnu_versym_section_index();
            writer.reserve_gnu_verdef_section_index();
        }
        let relocations_name = writer.add_section_name(b".rela.dyn");
        writer.reserve_section_index();
        let code_name = writer.add_section_name(b".text");
        let code_section = writer.reserve_section_index();
        writer.reserve_dynamic_section_index();
        let data_name = writer.add_section_name(b".data");
        writer.reserve_section_index();
        let counters_name = writer.add_section_name(b".bss");
        writer.reserve_section_index();
        writer.reserve_shstrtab_section_index();
        writer.reserve_shstrtab()?;
        writer.reserve_section_headers();

        Ok(Self {
            soname,
            needed,
            register,
            names,
            versions,
            register_index,
            symbol_count,
            bloom_count,
            verdef_count,
            gnu_hash,
            dynsym,
            dynstr,
            dynstr_size,
            versym,
            verdef,
            relocations,
            relocations_size,
            texts_at,
            readable_end,
            code_at,
            zero_at,
            init_at,
            code_end,
            dynamic,
            dynamic_count,
            init_array,
            record,
            imported,
            last,
            last_here,
            slots,
            data_end,
            counters: data_end,
            relocations_name,
            code_name,
            code_section,
            data_name,
            counters_name,
        })
    }
}
